"""Rotary presets against the rotary classes of diffusers: both rotate queries at positions of presets.positions."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast.presets import positions
from support.optional import optional

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

# for each class or function: a function that returns its Rotary, positions and rotated queries
CASES: dict[str, Any] = {}
F, H, W, TEXT = 3, 4, 6, 5


def case(*names: str):
    """Register one case for each name of a file and a class; the function is given the module and the class."""

    def register(build):
        for name in names:
            CASES[name] = build
        return build

    return register


@pytest.fixture(scope="module")
def torch():
    return optional("torch")


@pytest.fixture(scope="module")
def embeddings():
    optional("diffusers")
    return importlib.import_module("diffusers.models.embeddings")


class Source:
    """A class of diffusers, and the operators that rotate by its tables."""

    def __init__(self, name: str, torch: Any, embeddings: Any) -> None:
        where, self.name = name.split(":")
        folder = "" if "." in where else "transformers." + ("transformer_" if where != "embeddings" else "")
        path = "diffusers.models.embeddings" if where == "embeddings" else f"diffusers.models.{folder}{where}"
        self.module = importlib.import_module(path)
        self.made = getattr(self.module, self.name)
        self.torch, self.embeddings = torch, embeddings

    def latents(self, *shape: int) -> Any:
        return self.torch.zeros(1, 4, *shape)

    def ids(self, given: Any) -> Any:
        return self.torch.from_numpy(np.asarray(given))

    def real(self, tables: Any, half: bool = False) -> Any:
        return lambda q: self.embeddings.apply_rotary_emb(q, tables, use_real_unbind_dim=-2 if half else -1)

    def complex(self, factors: Any) -> Any:
        return lambda q: self.embeddings.apply_rotary_emb(
            q.transpose(1, 2), factors.reshape(1, -1, factors.shape[-1]), use_real=False
        ).transpose(1, 2)

    def matrices(self, rope: Any) -> Any:
        """Multiply each pair by a matrix of two by two, as several files of diffusers do."""
        parts = rope.reshape(-1, rope.shape[-3], 2, 2).float()
        return lambda q: (parts * q.reshape(*q.shape[:-1], -1, 1, 2)).sum(-1).reshape(q.shape)


# ---- coordinates in, tables out -------------------------------------------------------------------------------------


@case(
    "flux:FluxPosEmbed",
    "longcat_image:LongCatImagePosEmbed",
    "ovis_image:OvisImagePosEmbed",
    "bria:BriaPosEmbed",
    "bria:BriaEmbedND",
    "bria_fibo:BriaFiboEmbedND",
)
def flux(source):
    where = positions.flux(H, W, TEXT)
    tables = source.made(theta=10000, axes_dim=[16, 56, 56])(source.ids(where))
    return pf.presets.flux(), where, source.real(tables)


@case("krea2:Krea2RotaryPosEmbed")
def krea2(source):
    where = positions.flux(H, W, TEXT)
    return pf.presets.krea2(), where, source.real(source.made(1000, [32, 48, 48])(source.ids(where)))


@case("flux2:Flux2PosEmbed", "flux3:Flux3PosEmbed")
def flux2(source):
    where = positions.flux2(H, W, TEXT, image=10)
    theta = 2000 if source.name == "Flux2PosEmbed" else 10000
    tables = source.made(theta, [32] * 4)(source.ids(where))
    return pf.presets.flux2(theta=float(theta)), where, source.real(tables)


@case("hidream_image:HiDreamImageEmbedND")
def hidream(source):
    where = positions.flux(H, W, TEXT)
    rope = source.made(10000, [64, 32, 32])(source.ids(where).float()[None])
    return (
        pf.presets.hidream(),
        where,
        lambda q: source.module.apply_rope(q.transpose(1, 2), q.transpose(1, 2), rope)[0].transpose(1, 2),
    )


@case("prx:PRXEmbedND")
def prx(source):
    where = positions.grid(H, W)
    rope = source.made(dim=64, theta=10000, axes_dim=[32, 32])(source.ids(where).float()[None])
    return pf.presets.prx(), where, lambda q: source.module.apply_rope(q, rope)


@case("z_image:RopeEmbedder", "bria_fibo2:RopeEmbedder")
def z_image(source):
    where = positions.z_image(H, W, TEXT)
    embedder = source.made(theta=256.0, axes_dims=[32, 48, 48], axes_lens=[64, 16, 16])
    return pf.presets.z_image(), where, source.complex(embedder(source.ids(where)))


@case("minimax_h3:MiniMaxH3RotaryPosEmbed")
def minimax_h3(source):
    where = positions.grid(F, H, W)
    cos, sin = source.made()(source.ids(where))
    return (
        pf.presets.minimax_h3(),
        where,
        lambda q: source.module._apply_rotary_emb(q.transpose(1, 2), cos, sin).transpose(1, 2),
    )


@case("autoencoders.autoencoder_kl_minimax_h3:MiniMaxH3VideoRotaryPosEmbed")
def minimax_h3_decoder(source):
    where = positions.grid(*(2 * np.arange(n) / n - 1 for n in (F, H, W)))
    cos, sin = source.made(48)(source.ids(where).float()[None])
    spectrum = pf.geometric(8, base=100.0, first=2 * np.pi)
    rotary = pf.Rotary(48, frequencies=[spectrum] * 3, sections=[8, 8, 8])
    return rotary, where, source.real((cos[0, :, 0], sin[0, :, 0]), half=True)


@case("ideogram4:Ideogram4MRoPE")
def ideogram4(source):
    where = np.concatenate([positions.mrope([TEXT]), 65536 + positions.grid(1, H, W)])
    cos, sin = source.made(256, 5000000, (24, 20, 20))(source.ids(where)[None])
    return pf.presets.ideogram4(), where, source.real((cos[0], sin[0]), half=True)


@case("cosmos3:Cosmos3VLTextRotaryEmbedding")
def cosmos3(source):
    where = positions.mrope([TEXT, (F, H, W)], time_step=1.5)
    made = source.made(128, 5e6, (24, 20, 20))
    cos, sin = made(source.ids(where.T)[:, None], "cpu", source.torch.float32)
    return pf.presets.cosmos3(), where, source.real((cos[0], sin[0]), half=True)


# ---- sizes in, tables out -------------------------------------------------------------------------------------------


@case("qwenimage:QwenEmbedRope", "nucleusmoe_image:NucleusMoEEmbedRope", "qwenimage:QwenEmbedLayer3DRope")
def qwen_image(source):
    made = source.made(theta=10000, axes_dim=[16, 56, 56], scale_rope=True)
    layered = source.name == "QwenEmbedLayer3DRope"
    sizes = [[(1, H, W), (1, H, W + 1)]] if layered else [[(F, H, W)]]
    image, text = made(sizes, device=source.torch.device("cpu"), max_txt_seq_len=TEXT)
    if layered:
        # the last image is the condition, at frame -1
        second = positions.qwen_image(H, W + 1) - np.array([1, 0, 0])
        where = np.concatenate([positions.qwen_image(H, W, TEXT), second])
    else:
        where = positions.qwen_image(H, W, TEXT, frames=F)
    return pf.presets.qwen_image(), where, source.complex(source.torch.cat([text, image]))


@case("qwenimage21:QwenImage21Rope")
def qwen_image_21(source):
    mask = source.torch.tensor([False] * TEXT + [True] * (H * W) + [False] * 2)
    factors = source.made(10000, [16, 56, 56])([(1, H, W)], mask, source.torch.device("cpu"))
    image = positions.qwen_image(H, W, image=TEXT)
    after = TEXT + max(H, W)
    where = np.concatenate([positions.mrope([TEXT]), image, positions.mrope([2], start=after)])
    return pf.presets.qwen_image(), where, source.complex(factors)


@case("lumina2:Lumina2RotaryPosEmbed")
def lumina2(source):
    made = source.made(theta=10000, axes_dim=[32, 32, 32], patch_size=2)
    mask = source.torch.ones(1, TEXT, dtype=source.torch.int64)
    _, _, _, factors, _, _ = made(source.latents(2 * H, 2 * W), mask)
    return pf.presets.lumina2(), positions.lumina2(H, W, TEXT), source.complex(factors[0])


@case(
    "hunyuan_video:HunyuanVideoRotaryPosEmbed",
    "hunyuan_video15:HunyuanVideo15RotaryPosEmbed",
    "motif_video:MotifVideoRotaryPosEmbed",
)
def hunyuan_video(source):
    tables = source.made(2, 1, [16, 56, 56])(source.latents(F, 2 * H, 2 * W))
    return pf.presets.hunyuan_video(), positions.grid(F, H, W), source.real(tables)


@case("hunyuan_video_framepack:HunyuanVideoFramepackRotaryPosEmbed")
def framepack(source):
    frames = np.array([0, 3, 20])
    tables = source.made(2, 1, [16, 56, 56])(source.ids(frames), 2 * H, 2 * W, source.torch.device("cpu"))
    return pf.presets.hunyuan_video(), positions.grid(frames, H, W), source.real(tables)


@case("hunyuanimage:HunyuanImageRotaryPosEmbed")
def hunyuan_image(source):
    tables = source.made([2, 2], [64, 64])(source.latents(2 * H, 2 * W))
    return pf.presets.hunyuan_image(), positions.grid(H, W), source.real(tables)


@case(
    "wan:WanRotaryPosEmbed",
    "wan_animate:WanRotaryPosEmbed",
    "skyreels_v2:SkyReelsV2RotaryPosEmbed",
    "sana_video:WanRotaryPosEmbed",
    "chronoedit:ChronoEditRotaryPosEmbed",
)
def wan(source):
    cos, sin = source.made(128, (1, 2, 2), 64)(source.latents(F, 2 * H, 2 * W))
    return pf.presets.wan(), positions.grid(F, H, W), source.real((cos[0, :, 0], sin[0, :, 0]))


@case("sana_wm:SanaWMRotaryPosEmbed")
def sana_wm(source):
    factors = source.made(128, (1, 2, 2), 64)((F, H, W))
    return pf.presets.wan(), positions.grid(F, H, W), source.complex(factors)


@case("helios:HeliosRotaryPosEmbed")
def helios(source):
    frames = np.array([2, 5, 9])
    made = source.made((44, 42, 42), 10000.0)(source.ids(frames[None]), H, W, "cpu")
    tables = made.flatten(2).transpose(1, 2)
    return (
        pf.presets.wan(),
        positions.grid(frames, H, W),
        lambda q: source.module.apply_rotary_emb_transposed(q.transpose(1, 2), tables).transpose(1, 2),
    )


@case("cosmos:CosmosRotaryPosEmbed")
def cosmos(source):
    made = source.made(hidden_size=128, max_size=(128, 240, 240), patch_size=(1, 2, 2))
    tables = made(source.latents(F, 2 * H, 2 * W), fps=30)
    return pf.presets.cosmos(), positions.cosmos(F, H, W, fps=30), source.real(tables, half=True)


@case("ltx:LTXVideoRotaryPosEmbed")
def ltx(source):
    tables = source.made(2048)(source.latents(1), F, H, W, rope_interpolation_scale=(8 / 25, 32, 32))
    return pf.presets.ltx(), positions.ltx(F, H, W), lambda q: source.module.apply_rotary_emb(q[:, 0], tables)[:, None]


@case("ltx2:LTX2AudioVideoRotaryPosEmbed", "sana_wm_refiner:SanaWMLTX2AudioVideoRotaryPosEmbed")
def ltx2(source):
    made = source.made(4096)
    tables = made(made.prepare_video_coords(1, F, H, W, source.torch.device("cpu"), fps=24.0))
    turn = source.module.apply_interleaved_rotary_emb
    return pf.presets.ltx2(), positions.ltx2(F, H, W), lambda q: turn(q[:, 0], tables)[:, None]


@case("autoencoders.ltx2_diffusion_decoder:LTX2VideoVaeRotaryPosEmbed3D")
def ltx2_decoder(source):
    def turn(q):
        return source.made(64)(q.reshape(1, F, H, W, 1, 64)).reshape(q.shape)

    dims = source.made(64).rope_dim_split
    rotary = pf.Rotary(64, layout="interleaved", frequencies=[pf.geometric(d // 2) for d in dims])
    return rotary, positions.grid(F, H, W), turn


@case("mochi:MochiRoPE")
def mochi(source):
    weights = source.torch.randn(3, 4, 16, generator=source.torch.Generator().manual_seed(1))
    cos, sin = source.made()(weights, F, H, W, dtype=source.torch.float32)

    def turn(q):
        # as in MochiAttnProcessor2_0, whose function is local
        heads = q.reshape(*q.shape[:-1], 4, 32)
        even, odd = heads[..., 0::2], heads[..., 1::2]
        return source.torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).reshape(q.shape)

    return pf.presets.mochi(weights.numpy()), positions.mochi(F, H, W), turn


@case("cogview4:CogView4RotaryPosEmbed")
def cogview4(source):
    tables = source.made(128, 2, (256, 256))(source.latents(2 * H, 2 * W))
    return pf.presets.cogview4(), positions.cogview4(H, W), source.real(tables, half=True)


@case("glm_image:GlmImageRotaryPosEmbed")
def glm_image(source):
    tables = source.made(128, 2)(source.latents(2 * H, 2 * W))
    return pf.presets.cogview4(), positions.grid(H, W), source.real(tables, half=True)


@case("easyanimate:EasyAnimateRotaryPosEmbed")
def easyanimate(source):
    tables = source.made(2, 64)(source.latents(F, 2 * H, 2 * W))
    return pf.presets.cogvideox(), positions.cogvideox(F, H, W), source.real(tables)


@case("kandinsky:Kandinsky5RoPE3D", "kandinsky6:Kandinsky6RoPE3D", "kandinsky6_sr:Kandinsky6SRRoPE3D")
def kandinsky(source):
    dims = (16, 24, 24) if source.name == "Kandinsky5RoPE3D" else (32, 48, 48)
    where = [source.torch.arange(n) for n in (F, H, W)]
    size = ((1, F, H, W),) if source.name == "Kandinsky5RoPE3D" else ()
    rope = source.made(dims)(*size, where, (1.0, 2.0, 3.16))
    scaled = positions.grid(F, H, W) / np.array([1.0, 2.0, 3.16])
    return pf.presets.kandinsky5(dims), scaled, source.matrices(rope)


@case("kandinsky:Kandinsky5RoPE1D", "kandinsky6:Kandinsky6RoPE1D")
def kandinsky_text(source):
    return pf.presets.roformer(64), np.arange(9), source.matrices(source.made(64)(source.torch.arange(9)))


# ---- one axis -------------------------------------------------------------------------------------------------------


@case("stable_audio3:StableAudio3RotaryEmbedding", "autoencoders.autoencoder_same:RotaryEmbedding")
def stable_audio_3(source):
    angles = source.made(32)(9, source.torch.device("cpu"))
    turn = source.module._apply_rotary_partial
    return pf.presets.stable_audio(64), np.arange(9), lambda q: turn(q.transpose(1, 2), angles).transpose(1, 2)


@case("minimax_music3:MiniMaxMusic3RotaryEmbedding")
def minimax_music(source):
    tables = source.made(32)(9, source.torch.device("cpu"))
    turn = source.module._apply_partial_rotary_emb
    return pf.presets.stable_audio(64), np.arange(9), lambda q: turn(q.transpose(1, 2), tables).transpose(1, 2)


@case("longcat_audio_dit:AudioDiTRotaryEmbedding")
def longcat_audio(source):
    tables = source.made(64)(source.torch.zeros(1, 9, 4))
    turn = source.module._apply_rotary_emb
    return pf.presets.llama(64, theta=1e5), np.arange(9), lambda q: turn(q.transpose(1, 2), tables).transpose(1, 2)


@case("omnigen:OmniGenSuScaledRotaryEmbedding")
def omnigen(source):
    factors = {"short_factor": [1 + 0.01 * i for i in range(48)], "long_factor": [1.0 + i for i in range(48)]}
    tables = source.made(96, rope_scaling=factors)(source.torch.zeros(1), source.torch.arange(9)[None])
    scaling = {"rope_type": "longrope", **factors, "original_max_position_embeddings": 4096}
    rotary = pf.Rotary(96, scaling={**scaling, "max_position_embeddings": 131072})
    return rotary, np.arange(9), source.real(tables, half=True)


# ---- functions ------------------------------------------------------------------------------------------------------


@case("embeddings:get_3d_rotary_pos_embed")
def cogvideox(source):
    region = importlib.import_module("diffusers.pipelines.cogvideo.pipeline_cogvideox")
    crops = region.get_resize_crop_region_for_grid((H, W), 45, 30)
    tables = source.made(64, crops, (H, W), F)
    return pf.presets.cogvideox(), positions.cogvideox(F, H, W), source.real(tables)


@case("embeddings:get_2d_rotary_pos_embed")
def hunyuan_dit(source):
    region = importlib.import_module("diffusers.pipelines.hunyuandit.pipeline_hunyuandit")
    crops = region.get_resize_crop_region_for_grid((H, W), 32)
    tables = source.made(88, crops, (H, W), use_real=True, output_type="pt")
    return pf.presets.hunyuan_dit(), positions.cropped(H, W, base_rows=32, base_columns=32), source.real(tables)


@case("embeddings:get_2d_rotary_pos_embed_lumina")
def lumina_next(source):
    factors = source.made(96, H, W, linear_factor=1.5, ntk_factor=2.0)
    rotary = pf.presets.lumina_next(96, linear_factor=1.5, ntk_factor=2.0)
    return rotary, positions.grid(H, W), source.complex(factors)


@case("embeddings:get_1d_rotary_pos_embed")
def stable_audio(source):
    tables = source.made(32, 9, use_real=True, repeat_interleave_real=False)

    def turn(q):
        rotated = source.embeddings.apply_rotary_emb(q[..., :32], tables, use_real_unbind_dim=-2)
        return source.torch.cat([rotated, q[..., 32:]], -1)

    return pf.presets.stable_audio(), np.arange(9), turn


# ---- comparison -----------------------------------------------------------------------------------------------------


def pairs(x, rotary):
    """Return pairs as complex numbers (..., pairs)."""
    turning = np.asarray(x, np.float64)[..., : rotary.rotary_dim]
    if rotary._settings.layout == "interleaved":
        return turning[..., 0::2] + 1j * turning[..., 1::2]
    return turning[..., : rotary.rotary_dim // 2] + 1j * turning[..., rotary.rotary_dim // 2 :]


def alike(rotary, where, q, theirs):
    """Compare up to the rounding of float32 angles: sums of rounded products of rounded frequencies."""
    ours = rotary.apply(q, positions=where)
    np.testing.assert_array_equal(ours[..., rotary.rotary_dim :], theirs[..., rotary.rotary_dim :])
    angles = (
        np.abs(np.asarray(where, np.float64).reshape(len(where), -1))
        @ np.abs(rotary._angles_of("cos").frequencies.reshape(rotary.rotary_dim // 2, -1)).T
    )
    allowed = np.abs(pairs(q, rotary)) * (1e-6 + 5e-7 * angles)
    assert (np.abs(pairs(ours, rotary) - pairs(theirs, rotary)) <= allowed).all()


@pytest.mark.parametrize("name", CASES)
def test_class(name, torch, embeddings, rng):
    rotary, where, turn = CASES[name](Source(name, torch, embeddings))
    q = rng.standard_normal((1, 1, len(where), rotary.head_dim), np.float32)
    alike(rotary, where, q, turn(torch.from_numpy(q)).numpy())


def test_heads_of_ltx2(torch, embeddings, rng):
    """Split pairs: each head has a part of the frequencies."""
    source = Source("ltx2:LTX2AudioVideoRotaryPosEmbed", torch, embeddings)
    made = source.made(256, rope_type="split", num_attention_heads=4)
    cos, sin = made(made.prepare_video_coords(1, F, H, W, torch.device("cpu")))
    q = rng.standard_normal((1, 4, F * H * W, 64), np.float32)
    theirs = source.module.apply_split_rotary_emb(torch.from_numpy(q), (cos, sin)).numpy()
    for head in range(4):
        rotary = pf.presets.ltx2_split(256, head=head, heads=4)
        alike(rotary, positions.ltx2(F, H, W), q[:, head : head + 1], theirs[:, head : head + 1])


def test_audio_of_ltx2(torch, embeddings, rng):
    source = Source("ltx2:LTX2AudioVideoRotaryPosEmbed", torch, embeddings)
    made = source.made(2048, modality="audio")
    tables = made(made.prepare_audio_coords(1, 7, torch.device("cpu")))
    q = rng.standard_normal((1, 1, 7, 2048), np.float32)
    theirs = source.module.apply_interleaved_rotary_emb(torch.from_numpy(q)[:, 0], tables)[:, None].numpy()
    alike(pf.presets.ltx2(2048, axes=1), positions.ltx2_audio(7), q, theirs)


def test_positions_of_pipelines(torch, embeddings):
    """Coordinates of classes, from the pipeline or the model that computes them."""
    flux = importlib.import_module("diffusers.pipelines.flux.pipeline_flux").FluxPipeline
    ids = flux._prepare_latent_image_ids(1, H, W, torch.device("cpu"), torch.int64)
    np.testing.assert_array_equal(positions.flux(H, W), ids.numpy())
    flux2 = importlib.import_module("diffusers.pipelines.flux2.pipeline_flux2").Flux2Pipeline
    text = flux2._prepare_text_ids(torch.zeros(1, TEXT, 2))[0]
    image = flux2._prepare_latent_ids(torch.zeros(1, 2, H, W))[0]
    np.testing.assert_array_equal(positions.flux2(H, W, TEXT), torch.cat([text, image]).numpy())
    references = flux2._prepare_image_ids([torch.zeros(1, 2, H, W), torch.zeros(1, 2, W, H)])[0]
    ours = [positions.flux2(H, W, image=10), positions.flux2(W, H, image=20)]
    np.testing.assert_array_equal(np.concatenate(ours), references.numpy())
    made = importlib.import_module("diffusers.models.transformers.transformer_z_image").ZImageTransformer2DModel
    model = made.__new__(made)
    torch.nn.Module.__init__(model)
    found = model.patchify_and_embed([torch.zeros(4, 1, 2 * H, 2 * W)], [torch.zeros(TEXT, 8)], 2, 1)
    # cut to the number of tokens: the source's list for text is longer
    image, text = found[3][0], found[4][0][: len(found[1][0])]
    np.testing.assert_array_equal(positions.z_image(H, W, TEXT), torch.cat([image, text]).numpy())


def test_no_rotation(torch, embeddings):
    """ERNIE-Image rotates the two values of a pair by two angles."""
    source = Source("ernie_image:ErnieImageEmbedND3", torch, embeddings)
    angles = source.made(128, 256, (32, 48, 48))(torch.tensor([[[3, 1, 2]]], dtype=torch.float32))
    first, second = angles.flatten()[:64], angles.flatten()[64:]
    assert not torch.allclose(first, second)


def test_positional_embedding_of_rows_and_columns(torch, embeddings):
    table = embeddings.get_2d_sincos_pos_embed(16, (H, W), base_size=8, interpolation_scale=2.0, output_type="pt")
    ours = pf.grid([H, W], pf.presets.diffusers_2d(16, (H, W), base_size=8, interpolation_scale=2.0))
    np.testing.assert_allclose(table.numpy(), ours.reshape(H * W, 16), atol=1e-6)
