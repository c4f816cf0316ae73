/**
 * The reference pages of agents, workspaces, Temporal and security were written again. `page-facts.json` has the facts of the pages
 * before that. Each one is on the page today, on another page that the record names, or gone for a reason.
 *
 * A quantity is compared without its sentence, so this finds a number that was lost, but not one whose meaning changed.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ERROR_CODES } from '../../domain/errors/codes.ts';
import { findPackageRoot } from '../../setup/package-root.ts';
import { pathsOf } from './imports.ts';
import { FACT_KINDS, type Facts, readFacts } from './page-facts.ts';

const ROOT = findPackageRoot();
const RECORD = join(ROOT, 'test/structure/page-facts.json');
const AREAS: ReadonlySet<string> = new Set(Object.keys(ERROR_CODES).map((code) => code.slice(0, code.indexOf('/'))));
const PAGES = ['agents', 'workspaces', 'temporal', 'security'] as const;

interface PageRecord {
  /** The facts of the earlier page. */
  readonly facts: Facts;
  /** Facts that another page has now, by its path. */
  readonly elsewhere: Readonly<Record<string, readonly string[]>>;
  /** Facts that no page has, each with its reason. */
  readonly gone: Readonly<Record<string, string>>;
}

interface Recorded {
  /** The last commit with the earlier pages, at `docs/<page>.md`. */
  readonly commit: string;
  readonly pages: Readonly<Record<string, PageRecord>>;
}

const recorded = JSON.parse(readFileSync(RECORD, 'utf8')) as Recorded;
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');
const listFacts = (facts: Facts): readonly string[] => FACT_KINDS.flatMap((kind) => facts[kind]);
const factsOf = (path: string): ReadonlySet<string> => new Set(listFacts(readFacts(read(path), AREAS)));

test.each(PAGES)('each fact of the earlier page of %s is on a page, or is gone for a reason', (page) => {
  const { facts, elsewhere, gone } = process.env['UPDATE'] === '1' ? record(page) : recorded.pages[page]!;
  expect(listFacts(facts).length).toBeGreaterThan(15);
  const here = factsOf(`docs/reference/${page}.md`);
  const moved = new Map(Object.entries(elsewhere).map(([path, texts]) => [path, new Set(texts)]));
  const lost = listFacts(facts).filter(
    (fact) => !here.has(fact) && !(fact in gone) && ![...moved.values()].some((texts) => texts.has(fact)),
  );
  expect(lost).toEqual([]);
  for (const [path, texts] of moved)
    expect(
      [...texts].filter((fact) => !factsOf(path).has(fact)),
      path,
    ).toEqual([]);
  for (const [fact, reason] of Object.entries(gone)) expect(reason.length, fact).toBeGreaterThan(10);
});

test('a fact that is gone is on no page', () => {
  const all = new Set(
    pathsOf(ROOT)
      .filter(isPage)
      .flatMap((path) => [...factsOf(path)]),
  );
  for (const page of PAGES) {
    expect(
      Object.keys(recorded.pages[page]!.gone).filter((fact) => all.has(fact)),
      page,
    ).toEqual([]);
  }
});

test('the record has each fact of the earlier pages', ({ skip }) => {
  const earlier = PAGES.map((page) => readEarlier(page));
  if (earlier.includes(null)) return skip(`there is no history since ${recorded.commit}: a package or a shallow clone`);
  expect(PAGES.map((page) => recorded.pages[page]!.facts)).toEqual(earlier.map((text) => readFacts(text!, AREAS)));
});

const isPage = (path: string): boolean => /^docs\/(?!adr\/).*\.md$/.test(path);

/** Null in a tree without the commit. */
function readEarlier(page: string): string | null {
  try {
    const args = ['show', `${recorded.commit}:docs/${page}.md`];
    return execFileSync('git', args, { cwd: ROOT, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  } catch {
    return null;
  }
}

/** Writes where the facts of a page are today. Reasons are written by hand. */
function record(page: string): PageRecord {
  const facts = readFacts(readEarlier(page)!, AREAS);
  const here = factsOf(`docs/reference/${page}.md`);
  const others = pathsOf(ROOT)
    .filter((path) => isPage(path) && path !== `docs/reference/${page}.md`)
    .map((path) => ({ path, has: factsOf(path) }));
  const elsewhere: Record<string, string[]> = {};
  for (const fact of listFacts(facts).filter((each) => !here.has(each))) {
    const place = others.find(({ has }) => has.has(fact))?.path;
    if (place !== undefined) (elsewhere[place] ??= []).push(fact);
  }
  const now = JSON.parse(readFileSync(RECORD, 'utf8')) as Recorded;
  const entry = { facts, elsewhere, gone: now.pages[page]?.gone ?? {} };
  writeFileSync(RECORD, `${JSON.stringify({ ...now, pages: { ...now.pages, [page]: entry } }, null, 2)}\n`);
  return entry;
}

test('codes, options, variables and quantities are read in each form, and no path is read', () => {
  const page =
    'A stage fails as `stage/timeout` after 15 minutes, 2 or 3 s, 1,024 MiB: `--keep-last`, `TEMPORAL_TLS_…`, [x](a.md#y--z), ' +
    '`store/file/x.ts`, `VOIDBOX_STATE_DIR`, 3.5 GB, 10,000 files on 2026-11-29.';
  expect(readFacts(page, new Set(['stage', 'store']))).toEqual({
    codes: ['stage/timeout'],
    options: ['--keep-last'],
    variables: ['VOIDBOX_STATE_DIR'],
    quantities: ['10000', '1024 MiB', '15 min', '2 s', '3 s', '3.5 GB'],
  });
});
