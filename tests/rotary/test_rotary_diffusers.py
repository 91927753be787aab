"""Test that rotary presets rotate queries like the rotary classes of diffusers, at positions of presets.positions."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from posenc_fast import presets
from posenc_fast.presets import positions
from support.optional import optional
from support.rotations import assert_rotated_alike

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

F, H, W, TEXT = 3, 4, 6, 5


class Source:
    """A class or function of diffusers, and its module. Most methods return functions that rotate q by given tables."""

    def __init__(self, name):
        file, self.name = name.split(":")
        self.torch, self.embeddings = optional("torch"), optional("diffusers.models.embeddings")
        path = file if "." in file or file == "embeddings" else f"transformers.transformer_{file}"
        self.module, self.cpu = importlib.import_module(f"diffusers.models.{path}"), self.torch.device("cpu")
        self.build = getattr(self.module, self.name)

    def latents(self, *shape):
        return self.torch.zeros(1, 4, *shape)

    def ids(self, positions):
        return self.torch.from_numpy(np.asarray(positions))

    def real(self, tables, half=False):
        return lambda q: self.embeddings.apply_rotary_emb(q, tables, use_real_unbind_dim=-2 if half else -1)

    def first(self, tables, half=False):
        """Return a function that rotates by the tables of the first sequence of a batch."""
        return self.real(tuple(table[0] for table in tables), half)

    def complex(self, factors):
        factors = factors.reshape(1, -1, factors.shape[-1])
        return self.swapped(lambda q: self.embeddings.apply_rotary_emb(q, factors, use_real=False))

    def swapped(self, program):
        """Return a program for q with heads before tokens, from a program for q with tokens before heads."""
        return lambda q: program(q.transpose(1, 2)).transpose(1, 2)

    def own(self, name, *tables):
        """Return a program that calls a function of the module. This function expects tokens before heads."""
        return self.swapped(lambda q: getattr(self.module, name)(q, *tables))

    def without_heads(self, name, tables):
        return lambda q: getattr(self.module, name)(q[:, 0], tables)[:, None]

    def matrices(self, rope):
        """Return a function that multiplies each pair by its matrix of two by two, as several files of diffusers do."""
        parts = rope.reshape(-1, rope.shape[-3], 2, 2).float()
        return lambda q: (parts * q.reshape(*q.shape[:-1], -1, 1, 2)).sum(-1).reshape(q.shape)


# ---- programs of more than one line ---------------------------------------------------------------------------------


def qwen_image(s, p):
    rope = s.build(theta=10000, axes_dim=[16, 56, 56], scale_rope=True)
    image, text = rope([[(F, H, W)]], device=s.cpu, max_txt_seq_len=TEXT)
    return s.complex(s.torch.cat([text, image]))


def qwen_image_21(s, p):
    mask = s.torch.tensor([False] * TEXT + [True] * (H * W) + [False] * 2)
    return s.complex(s.build(10000, [16, 56, 56])([(1, H, W)], mask, s.cpu))


def ltx2(s, p):
    rope = s.build(4096)
    tables = rope(rope.prepare_video_coords(1, F, H, W, s.cpu, fps=24.0))
    return s.without_heads("apply_interleaved_rotary_emb", tables)


def ltx2_audio(s, p):
    rope = s.build(2048, modality="audio")
    return s.without_heads("apply_interleaved_rotary_emb", rope(rope.prepare_audio_coords(1, 7, s.cpu)))


MOCHI = np.random.default_rng(1).normal(size=(3, 4, 16)).astype(np.float32)


def mochi(s, p):
    cos, sin = s.build()(s.torch.from_numpy(MOCHI), F, H, W, dtype=s.torch.float32)

    def rotate(q):
        # copied from a local function of MochiAttnProcessor2_0, which cannot be imported
        heads = q.reshape(*q.shape[:-1], 4, 32)
        even, odd = heads[..., 0::2], heads[..., 1::2]
        return s.torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).reshape(q.shape)

    return rotate


def kandinsky(s, p):
    axes = [s.torch.arange(n) for n in (F, H, W)]
    return s.matrices(s.build((16, 24, 24))((1, F, H, W), axes, (1.0, 2.0, 3.16)))


def cropped(s, pipeline, *size):
    """Return the region of the base grid that a pipeline of diffusers computes for a grid of H by W."""
    folder, _, file = pipeline.partition(":")
    module = importlib.import_module(f"diffusers.pipelines.{folder}.pipeline_{file or folder}")
    return module.get_resize_crop_region_for_grid((H, W), *size)


QWEN_21 = np.concatenate([
    positions.mrope([TEXT]), positions.qwen_image(H, W, image=TEXT), positions.mrope([2], start=TEXT + max(H, W)),
])  # fmt: skip
FRAMES = np.array([0, 3, 20])
SCALED = positions.grid(F, H, W) / np.array([1.0, 2.0, 3.16])

# (names, Rotary, positions, function). names: file:class or file:function, or several such names if all rotate alike.
# The function has the Source and the positions as arguments, and returns the program that rotates q.
CASES = [
    # classes that compute tables from coordinates
    ("flux:FluxPosEmbed longcat_image:LongCatImagePosEmbed ovis_image:OvisImagePosEmbed bria:BriaPosEmbed bria:BriaEmbedND bria_fibo:BriaFiboEmbedND",
     presets.flux(), positions.flux(H, W, TEXT), lambda s, p: s.real(s.build(theta=10000, axes_dim=[16, 56, 56])(s.ids(p)))),
    ("krea2:Krea2RotaryPosEmbed", presets.krea2(), positions.flux(H, W, TEXT), lambda s, p: s.real(s.build(1000, [32, 48, 48])(s.ids(p)))),
    ("flux2:Flux2PosEmbed", presets.flux2(), positions.flux2(H, W, TEXT, image=10), lambda s, p: s.real(s.build(2000, [32] * 4)(s.ids(p)))),
    ("hidream_image:HiDreamImageEmbedND", presets.hidream(), positions.flux(H, W, TEXT),
     lambda s, p: s.swapped(lambda q: s.module.apply_rope(q, q, s.build(10000, [64, 32, 32])(s.ids(p).float()[None]))[0])),
    ("prx:PRXEmbedND", presets.prx(), positions.grid(H, W),
     lambda s, p: lambda q: s.module.apply_rope(q, s.build(dim=64, theta=10000, axes_dim=[32, 32])(s.ids(p).float()[None]))),
    ("z_image:RopeEmbedder bria_fibo2:RopeEmbedder", presets.z_image(), positions.z_image(H, W, TEXT),
     lambda s, p: s.complex(s.build(theta=256.0, axes_dims=[32, 48, 48], axes_lens=[64, 16, 16])(s.ids(p)))),
    ("minimax_h3:MiniMaxH3RotaryPosEmbed", presets.minimax_h3(), positions.grid(F, H, W), lambda s, p: s.own("_apply_rotary_emb", *s.build()(s.ids(p)))),
    ("ideogram4:Ideogram4MRoPE", presets.ideogram4(), np.concatenate([positions.mrope([TEXT]), 65536 + positions.grid(1, H, W)]),
     lambda s, p: s.first(s.build(256, 5000000, (24, 20, 20))(s.ids(p)[None]), half=True)),
    ("cosmos3:Cosmos3VLTextRotaryEmbedding", presets.cosmos3(), positions.mrope([TEXT, (F, H, W)], time_step=1.5),
     lambda s, p: s.first(s.build(128, 5e6, (24, 20, 20))(s.ids(p.T)[:, None], "cpu", s.torch.float32), half=True)),
    # classes that compute tables from sizes
    ("qwenimage:QwenEmbedRope nucleusmoe_image:NucleusMoEEmbedRope", presets.qwen_image(), positions.qwen_image(H, W, TEXT, frames=F), qwen_image),
    ("qwenimage21:QwenImage21Rope", presets.qwen_image(), QWEN_21, qwen_image_21),
    ("lumina2:Lumina2RotaryPosEmbed", presets.lumina2(), positions.lumina2(H, W, TEXT),
     lambda s, p: s.complex(s.build(10000, [32] * 3, patch_size=2)(s.latents(2 * H, 2 * W), s.torch.ones(1, TEXT, dtype=s.torch.int64))[3][0])),
    ("hunyuan_video:HunyuanVideoRotaryPosEmbed hunyuan_video15:HunyuanVideo15RotaryPosEmbed motif_video:MotifVideoRotaryPosEmbed",
     presets.hunyuan_video(), positions.grid(F, H, W), lambda s, p: s.real(s.build(2, 1, [16, 56, 56])(s.latents(F, 2 * H, 2 * W)))),
    ("hunyuan_video_framepack:HunyuanVideoFramepackRotaryPosEmbed", presets.hunyuan_video(), positions.grid(FRAMES, H, W),
     lambda s, p: s.real(s.build(2, 1, [16, 56, 56])(s.ids(FRAMES), 2 * H, 2 * W, s.cpu))),
    ("hunyuanimage:HunyuanImageRotaryPosEmbed", presets.hunyuan_image(), positions.grid(H, W), lambda s, p: s.real(s.build([2, 2], [64, 64])(s.latents(2 * H, 2 * W)))),
    ("wan:WanRotaryPosEmbed wan_animate:WanRotaryPosEmbed skyreels_v2:SkyReelsV2RotaryPosEmbed sana_video:WanRotaryPosEmbed chronoedit:ChronoEditRotaryPosEmbed",
     presets.wan(), positions.grid(F, H, W), lambda s, p: s.real(tuple(table[0, :, 0] for table in s.build(128, (1, 2, 2), 64)(s.latents(F, 2 * H, 2 * W))))),
    ("cosmos:CosmosRotaryPosEmbed", presets.cosmos(), positions.cosmos(F, H, W, fps=30),
     lambda s, p: s.real(s.build(hidden_size=128, max_size=(128, 240, 240), patch_size=(1, 2, 2))(s.latents(F, 2 * H, 2 * W), fps=30), half=True)),
    ("ltx:LTXVideoRotaryPosEmbed", presets.ltx(), positions.ltx(F, H, W),
     lambda s, p: s.without_heads("apply_rotary_emb", s.build(2048)(s.latents(1), F, H, W, rope_interpolation_scale=(8 / 25, 32, 32)))),
    ("ltx2:LTX2AudioVideoRotaryPosEmbed sana_wm_refiner:SanaWMLTX2AudioVideoRotaryPosEmbed", presets.ltx2(), positions.ltx2(F, H, W), ltx2),
    ("ltx2:LTX2AudioVideoRotaryPosEmbed", presets.ltx2(2048, axes=1), positions.ltx2_audio(7), ltx2_audio),
    ("mochi:MochiRoPE", presets.mochi(MOCHI), positions.mochi(F, H, W), mochi),
    ("cogview4:CogView4RotaryPosEmbed", presets.cogview4(), positions.cogview4(H, W), lambda s, p: s.real(s.build(128, 2, (256, 256))(s.latents(2 * H, 2 * W)), half=True)),
    ("kandinsky:Kandinsky5RoPE3D", presets.kandinsky5((16, 24, 24)), SCALED, kandinsky),
    # classes with one axis
    ("stable_audio3:StableAudio3RotaryEmbedding autoencoders.autoencoder_same:RotaryEmbedding", presets.stable_audio(64), np.arange(9),
     lambda s, p: s.own("_apply_rotary_partial", s.build(32)(9, s.cpu))),
    # functions instead of classes
    ("embeddings:get_3d_rotary_pos_embed", presets.cogvideox(), positions.cogvideox(F, H, W), lambda s, p: s.real(s.build(64, cropped(s, "cogvideo:cogvideox", 45, 30), (H, W), F))),
    ("embeddings:get_2d_rotary_pos_embed", presets.hunyuan_dit(), positions.cropped(H, W, base_rows=32, base_columns=32),
     lambda s, p: s.real(s.build(88, cropped(s, "hunyuandit", 32), (H, W), use_real=True, output_type="pt"))),
    ("embeddings:get_2d_rotary_pos_embed_lumina", presets.lumina_next(96, linear_factor=1.5, ntk_factor=2.0), positions.grid(H, W),
     lambda s, p: s.complex(s.build(96, H, W, linear_factor=1.5, ntk_factor=2.0))),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "rotary", "where", "program"),
    [pytest.param(name, *case, id=name) for names, *case in CASES for name in names.split()],
)
def test_class(name, rotary, where, program, rng):
    source, q = Source(name), rng.standard_normal((1, 1, len(where), rotary.head_dim), np.float32)
    assert_rotated_alike(rotary, where, q, program(source, where)(source.torch.from_numpy(q)).numpy())


def test_heads_of_ltx2(rng):
    """With rope_type="split", each head of LTX-2 rotates by its own part of the frequencies, like `ltx2_split`."""
    s, q = Source("ltx2:LTX2AudioVideoRotaryPosEmbed"), rng.standard_normal((1, 4, F * H * W, 64), np.float32)
    rope = s.build(256, rope_type="split", num_attention_heads=4)
    tables = rope(rope.prepare_video_coords(1, F, H, W, s.cpu))
    theirs = s.module.apply_split_rotary_emb(s.torch.from_numpy(q), tables).numpy()
    for head in range(4):
        rotary = presets.ltx2_split(256, head=head, heads=4)
        assert_rotated_alike(rotary, positions.ltx2(F, H, W), q[:, [head]], theirs[:, [head]])


def test_positions_of_pipelines():
    """Functions of presets.positions return the coordinates that pipelines or models of diffusers compute."""
    torch, _ = optional("torch"), optional("diffusers")
    flux = importlib.import_module("diffusers.pipelines.flux.pipeline_flux").FluxPipeline
    ids = flux._prepare_latent_image_ids(1, H, W, torch.device("cpu"), torch.int64)
    np.testing.assert_array_equal(positions.flux(H, W), ids.numpy())
    flux2 = importlib.import_module("diffusers.pipelines.flux2.pipeline_flux2").Flux2Pipeline
    text, image = flux2._prepare_text_ids(torch.zeros(1, TEXT, 2)), flux2._prepare_latent_ids(torch.zeros(1, 2, H, W))
    np.testing.assert_array_equal(positions.flux2(H, W, TEXT), torch.cat([text[0], image[0]]).numpy())
    references = flux2._prepare_image_ids([torch.zeros(1, 2, H, W), torch.zeros(1, 2, W, H)])[0]
    ours = [positions.flux2(H, W, image=10), positions.flux2(W, H, image=20)]
    np.testing.assert_array_equal(np.concatenate(ours), references.numpy())
    made = importlib.import_module("diffusers.models.transformers.transformer_z_image").ZImageTransformer2DModel
    model = made.__new__(made)
    torch.nn.Module.__init__(model)
    found = model.patchify_and_embed([torch.zeros(4, 1, 2 * H, 2 * W)], [torch.zeros(TEXT, 8)], 2, 1)
    # the model pads the tokens of text, and pads their coordinates twice; take one coordinate for each padded token
    image, text = found[3][0], found[4][0][: len(found[1][0])]
    np.testing.assert_array_equal(positions.z_image(H, W, TEXT), torch.cat([image, text]).numpy())
