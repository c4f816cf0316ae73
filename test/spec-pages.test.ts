/**
 * Keys, codes, commands, and numbers with their units, which the page of specs had before it became a guide and a
 * reference: each is on the page that `spec-pages.json` names, or the record gives the reason why it is gone.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { findPackageRoot } from '../setup/package-root.ts';

interface Recorded {
  /** Facts by their page. A fact of `pages` is on one of these two. */
  readonly facts: Readonly<Record<string, readonly string[]>>;
  readonly gone: readonly { readonly reason: string; readonly facts: readonly string[] }[];
}

const ROOT = findPackageRoot();
const PAGES = ['docs/reference/spec.md', 'docs/guides/write-a-spec.md'];
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');
const recorded = JSON.parse(read('test/spec-pages.json')) as Recorded;
const gone = recorded.gone.flatMap(({ facts }) => facts);

const textOf = (page: string): string => (page === 'pages' ? PAGES.map(read).join('\n') : read(page));

test.each(Object.keys(recorded.facts))('each fact is on its page: %s', (page) => {
  const text = textOf(page);
  expect(recorded.facts[page]!.filter((fact) => !hasFact(text, fact))).toEqual([]);
});

test('a fact has one place, and a fact that is gone is on neither page', () => {
  const all = [...Object.values(recorded.facts).flat(), ...gone];
  expect(all.length).toBeGreaterThan(900);
  expect(all.length - new Set(all).size).toBe(0);
  expect(gone.filter((fact) => hasFact(textOf('pages'), fact))).toEqual([]);
});

test('most facts stay on the two pages, and each reason has a text', () => {
  expect(recorded.facts['pages']!.length).toBeGreaterThan(500);
  expect(gone.length).toBeLessThan(90);
  for (const { reason, facts } of recorded.gone) {
    expect(reason).toMatch(/^[A-Z].{20,}\.$/);
    expect(facts).not.toEqual([]);
  }
});

test('the two pages have at most 9,100 words together', () => {
  // Readers do not see the marks of blocks.
  const words = textOf('pages')
    .replace(/<!--.*?-->/gs, '')
    .split(/\s+/)
    .filter((word) => word !== '');
  expect(words.length).toBeLessThanOrEqual(9_100);
});

test.each([
  ['a span of code', 'It has `max_visits`.', '`max_visits`', true],
  ['a longer word', 'It has `max_visits_more`.', '`max_visits`', false],
  ['a number with its unit', 'At most 10,000 items.', '10000 item', true],
  ['a range', '| 1 to 1000 (stages) |', '1000 stage', true],
  ['another unit', 'At most 10,000 files.', '10000 item', false],
  ['another number', 'At most 110,000 items.', '10000 item', false],
])('the comparison sees %s', (_what, text, fact, isThere) => {
  expect(hasFact(text, fact)).toBe(isThere);
});

/** @param fact  code in backquotes, or a number and its unit in the singular */
function hasFact(text: string, fact: string): boolean {
  const code = /^`(.+)`$/.exec(fact)?.[1];
  if (code !== undefined) return new RegExp(`(?<!\\w)${escape(code)}(?!\\w)`).test(text);
  return numbersOf(text).has(fact);
}

function escape(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
}

/** Returns numbers with the words after them, as `10000 item`. */
function numbersOf(text: string): ReadonlySet<string> {
  const found = text.matchAll(/(?<![\w.,])(\d[\d.,]*\d|\d)\s?\(?(%|[A-Za-z]+)/g);
  return new Set(
    [...found].map(
      ([, number = '', unit = '']) => `${number.replaceAll(',', '')} ${unit.toLowerCase().replace(/s$/, '')}`,
    ),
  );
}
