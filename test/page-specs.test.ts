/** Every spec that a page shows is valid, and so is every piece of one in the place that its mark names. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { loadText } from '../domain/language/load.ts';
import { findPackageRoot } from '../setup/package-root.ts';
import { pathsOf } from './structure/imports.ts';

const ROOT = findPackageRoot();
/** The reference of specs has tests of its own (`domain/language/grammar`). */
const PAGES = pathsOf(ROOT).filter((path) => /^(?:README|docs\/(?!adr\/|reference\/spec\.md$).*)\.md$/.test(path));

interface Block {
  readonly place: string;
  /** The text of the mark in the line before: `in: stage`, `not a spec`, `file: NAME`; empty if there is no mark. */
  readonly mark: string;
  readonly text: string;
}

/** The blocks of YAML of a page. Blocks in items of a list are indented, with their mark. */
function readBlocks(path: string, page: string): readonly Block[] {
  return [...page.matchAll(/^( *)(?:<!-- (.+?) -->\n *)?```yaml\n([^]*?)^ *```$/gm)].map(
    ({ index, 1: indent = '', 2: mark = '', 3: text = '' }) => ({
      place: `${path}:${page.slice(0, index).split('\n').length}`,
      mark,
      text: text.replace(new RegExp(`^${indent}`, 'gm'), ''),
    }),
  );
}

const STAGE = { name: 'one', prompt: 'Say hello.' };

/** The whole spec of a block; null for a block that is no spec. */
function toSpec({ place, mark, text }: Block): string | null {
  if (/^kind:/m.test(text)) return text;
  if (mark === 'not a spec' || mark.startsWith('file: .github/')) return null;
  const piece = parse(text) as unknown;
  const head = {
    name: 'page',
    llm: { provider: 'claude' },
    params: { repository: { type: 'text', default: '.' } },
  };
  switch (mark) {
    case 'in: spec':
      return stringify({ ...head, ...whole(piece as object) });
    case 'in: stage':
      return stringify({ ...head, kind: 'pipeline', pipeline: { boxes: [{ ...STAGE, ...(piece as object) }] } });
    case 'in: steps':
      return stringify({ ...head, kind: 'workflow', workflow: toWorkflow(piece as readonly Step[]) });
    case 'in: boxes':
      return stringify({ ...head, kind: 'pipeline', pipeline: { boxes: withSources(piece as readonly Box[]) } });
    default:
      throw new Error(
        `${place}: write <!-- in: spec, stage, steps or boxes -->, or <!-- not a spec -->, before the block`,
      );
  }
}

/** A piece of the top level, with steps if it has no stages. */
function whole(piece: object): object {
  if ('pipeline' in piece) return { kind: 'pipeline', ...piece };
  return { kind: 'workflow', workflow: { steps: [STAGE] }, ...piece };
}

interface Step {
  readonly name: string;
  readonly depends_on?: readonly string[];
}

/** Adds the steps that these steps name. The last step gives the result. */
function toWorkflow(steps: readonly Step[]): object {
  const own = new Set(steps.map(({ name }) => name));
  const read = [...JSON.stringify(steps).matchAll(/\bstages\.(\w+)/g)].map(([, name]) => name!);
  const named = new Set([...steps.flatMap(({ depends_on: names = [] }) => names), ...read]);
  const added = [...named].filter((name) => !own.has(name)).map((name) => ({ name, run: 'true' }));
  return { steps: [...added, ...steps], output_step: steps.at(-1)?.name };
}

interface Box {
  readonly name: string;
  readonly workspace?: { readonly from?: string };
}

/** Adds the boxes whose workspace a box continues. */
function withSources(boxes: readonly Box[]): readonly unknown[] {
  const sources = boxes.flatMap(({ workspace }) => workspace?.from ?? []);
  return [...sources.map((name) => ({ name, run: 'true', workspace: { git: '.' } })), ...boxes];
}

async function findErrors(spec: string): Promise<readonly string[]> {
  // An image of a path is a file of the reader.
  const text = spec.replace(/image: \.\/[\w.-]+/g, 'image: dev');
  const { params = {} } = parse(spec) as { readonly params?: Readonly<Record<string, unknown>> };
  // `rows: 3` is the short form of a default.
  const given = Object.entries(params).flatMap(([name, param]) =>
    param !== null && (typeof param !== 'object' || 'default' in param) ? [] : [name],
  );
  const options = {
    baseDir: '/specs',
    params: Object.fromEntries(given.map((name) => [name, 'main'])),
    listFiles: () => ({ files: ['notes/a.txt'] }),
  };
  const { diagnostics } = await loadText(text, 'page.yaml', options);
  return diagnostics.filter(({ severity }) => severity === 'error').map(({ message }) => message);
}

const BLOCKS = PAGES.flatMap((path) => readBlocks(path, readFileSync(join(ROOT, path), 'utf8')));

test('pages show specs and pieces of specs', () => {
  expect(BLOCKS.filter(({ text }) => /^kind:/m.test(text)).length).toBeGreaterThan(15);
  expect(BLOCKS.filter(({ mark }) => mark.startsWith('in: ')).length).toBeGreaterThan(10);
});

const SPECS = BLOCKS.flatMap((block) => {
  const spec = toSpec(block);
  return spec === null ? [] : [{ place: block.place, spec }];
});

test.each(SPECS)('the block of YAML at $place is valid', async ({ spec }) => {
  expect(await findErrors(spec), spec).toEqual([]);
});

test('a piece that is wrong at its mark is found, and a block without a mark is refused', async () => {
  const [wrong, bare] = readBlocks(
    'x.md',
    '<!-- in: spec -->\n```yaml\nbudget: { max_cost_usd: 5 }\n```\n\n```yaml\nenv: {}\n```\n',
  );
  expect(await findErrors(toSpec(wrong!)!)).toEqual([expect.stringContaining('needs the price')]);
  expect(() => toSpec(bare!)).toThrow('x.md:6: write <!-- in: spec');
});
