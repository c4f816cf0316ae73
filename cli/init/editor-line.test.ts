import { mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { editorLine } from './editor-line.ts';

let project: string;
beforeEach(async () => {
  project = await realpath(await mkdtemp(join(tmpdir(), 'voidbox-editor-')));
  await mkdir(join(project, 'specs', 'daily'), { recursive: true });
});
afterEach(() => rm(project, { recursive: true, force: true }));

async function install(place: string): Promise<string> {
  const root = join(project, place);
  await mkdir(join(root, 'docs'), { recursive: true });
  await writeFile(join(root, 'docs', 'spec.schema.json'), '{}');
  return root;
}

test('the path is relative to the spec', async () => {
  const root = await install('node_modules/voidbox');
  expect(await editorLine(project, root)).toBe(
    '# yaml-language-server: $schema=node_modules/voidbox/docs/spec.schema.json\n',
  );
  expect(await editorLine(join(project, 'specs/daily'), root)).toBe(
    '# yaml-language-server: $schema=../../node_modules/voidbox/docs/spec.schema.json\n',
  );
});

test('a package that the project links to is named by the link', async () => {
  const root = await install('node_modules/.store/voidbox@1/node_modules/voidbox');
  await symlink(root, join(project, 'node_modules/voidbox'));
  expect(await editorLine(project, root)).toBe(
    '# yaml-language-server: $schema=node_modules/voidbox/docs/spec.schema.json\n',
  );
});

test('nothing is written where the package lies elsewhere, or another one in the project', async () => {
  const root = await install('elsewhere/voidbox');
  expect(await editorLine(project, root)).toBe('');
  await install('node_modules/voidbox');
  expect(await editorLine(project, root)).toBe('');
});

test('nothing is written when the package has no schema', async () => {
  expect(await editorLine(project, project)).toBe('');
});
