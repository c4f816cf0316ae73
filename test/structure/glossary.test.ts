/** The glossary has one row for a word, and the pages call each thing by its word. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { findPackageRoot } from '../../setup/package-root.ts';
import { pathsOf } from './imports.ts';
import { toProse } from './sentences.ts';

const ROOT = findPackageRoot();
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');

const words = [...read('docs/reference/glossary.md').matchAll(/^\| \*\*([^*]+)\*\*/gm)].map(([, word]) =>
  word!.toLowerCase(),
);

/** Other words for a thing of the glossary. Pages use none of them, so that a reader searches for one word. */
const SYNONYMS: Readonly<Record<string, RegExp>> = {
  'agent skill': /\bagent's skills?\b|\bskills? of (?:an|the) agent\b/i,
  approval: /\b(?:manual gate|human task|sign-off)s?\b/i,
  artifact: /\bblobs?\b/i,
  budget: /\b(?:quota|spend limit)s?\b/i,
  door: /\b(?:network|egress) gateways?\b/i,
  stack: /\b(?:local|dev|built-in|bundled) stack\b/i,
  'host variable': /\bhost environment variables?\b/i,
  item: /\b(?:matrix job|map task)s?\b/i,
  keeper: /\bVM (?:manager|supervisor|monitor)s?\b/i,
  'mock agent': /\b(?:fake|stub|dummy) agents?\b/i,
  part: /\bsub-?(?:workflow|pipeline)s?\b/i,
  run: /\b(?:pipeline|job) runs?\b/i,
  spec: /\bpipeline (?:file|definition)s?\b/i,
  stage: /\bpipeline (?:task|job)s?\b/i,
  'state folder': /\bstate (?:director(?:y|ies)|dir)\b|\bdata (?:director(?:y|ies)|folder)s?\b/i,
  'step machine': /\bskill machines?\b|\bstate-machine skills?\b/i,
  worker: /\bexecutors?\b/i,
};

function findSynonyms(where: string, page: string): readonly string[] {
  return toProse(page)
    .replace(/`[^`\n]*`|"[^"\n]*"/g, '·')
    .split('\n')
    .flatMap((line, index) =>
      Object.entries(SYNONYMS).flatMap(([word, pattern]) => {
        const [found] = pattern.exec(line) ?? [];
        return found === undefined ? [] : [`${where}:${index + 1}: "${found}"; write: ${word}`];
      }),
    );
}

test('the glossary has one row for a word', () => {
  expect(words.length).toBeGreaterThan(80);
  expect(words.filter((word, index) => words.indexOf(word) !== index)).toEqual([]);
});

test('each word with forbidden synonyms is in the glossary', () => {
  expect(Object.keys(SYNONYMS).filter((word) => !words.includes(word))).toEqual([]);
});

test('no page uses another word for a thing of the glossary', () => {
  const pages = pathsOf(ROOT).filter(
    (path) => /^(?:README|docs\/(?!adr\/).*)\.md$/.test(path) && path !== 'docs/reference/glossary.md',
  );
  expect(pages.length).toBeGreaterThan(50);
  expect(pages.flatMap((path) => findSynonyms(path, read(path)))).toEqual([]);
});

test('a synonym in a sentence is found with its line, and one in code or quotes is not', () => {
  expect(findSynonyms('x.md', 'One.\nDelete the state directory.')).toEqual([
    'x.md:2: "state directory"; write: state folder',
  ]);
  expect(findSynonyms('x.md', '`state dir` and "a fake agent"\n```\nblob\n```')).toEqual([]);
});
