/** The summary of changed files counts marked files beyond the list, and never claims that the marks are complete. */
import { expect, test } from 'vitest';
import type { ChangedFile } from '../../../git/changed-files.ts';
import { renderChangedFiles } from './changed-files.ts';
import { createStyle } from '../text/style.ts';

const file = (path: string, notable: readonly string[] = []): ChangedFile => ({
  path,
  from: null,
  change: 'added',
  added: 1,
  removed: 0,
  notable,
});
const render = (files: readonly ChangedFile[]): readonly string[] =>
  renderChangedFiles(files, createStyle(false)).split('\n').slice(0, -1);

test('files with a mark come before others in what is listed, and those beyond the list are counted', () => {
  const plain = Array.from({ length: 300 }, (_, index) => file(`src/${index}.ts`));
  const marked = Array.from({ length: 250 }, (_, index) =>
    file(`packages/${index}/.npmrc`, ['runs on install or build']),
  );
  const lines = render([...plain, ...marked]);
  expect(lines.filter((line) => line.includes('.npmrc'))).toHaveLength(200);
  expect(lines.slice(-2)).toEqual([
    '  and 350 more, 50 of them marked',
    '250 files are marked: programs run or read them without a question; the marks are never complete, so read every change',
  ]);
  expect(render([...plain, ...marked.slice(0, 10)]).slice(-2)).toEqual([
    '  and 110 more',
    '10 files are marked: programs run or read them without a question; the marks are never complete, so read every change',
  ]);
});

test('a summary without a marked file does not say that all is well', () => {
  expect(render([file('a.txt')])).toEqual([
    '  A a.txt  +1 -0',
    'no file is marked; the marks are never complete, so read every change',
  ]);
  expect(render([])).toEqual([]);
});
