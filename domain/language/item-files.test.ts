/** `for_each: files("…")`: the pattern in a spec, and the list of files. */
import { expect, test } from 'vitest';
import type { ListFiles } from './read/file-pattern.ts';
import { compileText } from './load.ts';

const seen: string[] = [];
const listFiles: ListFiles = (folder, { text }) => {
  seen.push(`${folder}: ${text}`);
  return text.startsWith('large')
    ? { problem: 'it names more than 10000 files' }
    : { files: text.startsWith('none') ? [] : ['a.csv', 'b.csv'] };
};

function compiled(
  list: string,
  options: Partial<Parameters<typeof compileText>[2]> = {},
): ReturnType<typeof compileText> {
  const text = JSON.stringify({
    kind: 'workflow',
    name: 'x',
    params: { folder: 'data' },
    workflow: { steps: [{ name: 'a', for_each: list, run: { program: 'true' } }] },
  });
  seen.length = 0;
  return compileText(text, 'x.json', { baseDir: '/home/ada', listFiles, ...options });
}

test('the paths of the files are the items', () => {
  const { plan, diagnostics } = compiled('files("data/*.csv")');
  expect(diagnostics).toEqual([]);
  expect(plan?.stages[0]?.each?.list).toEqual({ kind: 'inline', items: ['a.csv', 'b.csv'] });
  expect(seen).toEqual(['/home/ada: data/*.csv']);
});

test('a pattern may have a parameter, whose value cannot lead out of the folder', () => {
  const list = " files( '${{ params.folder }}/*.csv' ) ";
  expect(compiled(list, { params: { folder: 'b") or ("' } }).plan).not.toBeNull();
  expect(seen).toEqual(['/home/ada: b") or ("/*.csv']);
  expect(compiled(list, { params: { folder: '../ben' } }).diagnostics).toMatchObject([
    { code: 'spec/bad-path', message: expect.stringContaining('the pattern "../ben/*.csv" leaves the folder') },
  ]);
  expect(seen).toEqual([]);
});

test('a pattern that matches no file gives an empty list, with a warning', () => {
  const { plan, diagnostics } = compiled('files("none/*")');
  expect(plan?.stages[0]?.each?.list).toEqual({ kind: 'inline', items: [] });
  expect(diagnostics).toMatchObject([
    {
      severity: 'warning',
      message: '`for_each` of step "a": no file below /home/ada matches "none/*", so the stage has no items',
    },
  ]);
});

test.each<[string, string, Partial<Parameters<typeof compileText>[2]>]>([
  ['too many', 'lists "large/*": it names more than 10000 files', {}],
  ['a text without a folder', 'comes as a text without one', { baseDir: null }],
])('%s: an error', (_what, message, options) => {
  const { plan, diagnostics } = compiled('files("large/*")', options);
  expect(plan).toBeNull();
  expect(diagnostics).toMatchObject([
    { code: 'spec/bad-path', severity: 'error', message: expect.stringContaining(message) },
  ]);
});

test('a worker that compiles a text lists no files of its own', () => {
  const text =
    'kind: workflow\nname: x\nworkflow: { steps: [{ name: a, for_each: files("*"), run: { program: "true" } }] }';
  expect(compileText(text, 'x.yaml', { baseDir: '/home/ada' }).diagnostics).toMatchObject([
    { code: 'spec/bad-path', line: 3, message: expect.stringContaining('comes as a text without one') },
  ]);
});

test.each(['files(data)', 'files("a" + "b")', 'files("a", "b")', 'files("a\\"b")', 'file("a")'])(
  '%s names no list',
  (list) => {
    expect(compiled(list).diagnostics).toMatchObject([{ message: expect.stringContaining('which is not a list') }]);
  },
);
