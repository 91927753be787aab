// The order of search results: pages come before the reference, which has a page for each name.
var Scorer = {
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
  score: ([page, , , , score]) => (/^(generated\/|api|genindex)/.test(page) ? score - 100 : score),
};
