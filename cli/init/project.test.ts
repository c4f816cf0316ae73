import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { loadText } from '../../domain/language/load.ts';
import { typeCommand } from '../../test/rig/runs/typed-command.ts';
import { findTestCommand } from './project.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'voidbox-project-'));
  mkdirSync(join(folder, '.git'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function put(name: string, text = ''): void {
  mkdirSync(dirname(join(folder, name)), { recursive: true });
  writeFileSync(join(folder, name), text);
}

test.each([
  ['test.sh', '', 'sh ./test.sh'],
  ['Makefile', 'all:\n\ttrue\ntest: all\n\t./run\n', 'make test'],
  ['package.json', '{"scripts":{"test":"node --test"},"dependencies":{}}', 'node --test'],
  ['package.json', `{"scripts":{"test":"node ${'a'.repeat(200)}"}}`, `node ${'a'.repeat(200)}`],
  ['test_sum.py', '', 'python3 -m unittest'],
  ['tests/test_sum.py', '', 'python3 -m unittest discover tests'],
])('a repository with %s has a test command', (name, text, command) => {
  put(name, text);
  expect(findTestCommand(folder)).toBe(command);
});

test.each([
  ['README.md', ''],
  ['Makefile', 'all:\n\ttests\n'],
  ['package.json', 'not JSON'],
  ['package.json', '{"scripts":{"test":"vitest"}}'],
  ['package.json', '{"scripts":{"test":7}}'],
  ['package.json', '{"scripts":{"test":"node ${{ params.a }}"}}'],
  ['package.json', `{"scripts":{"test":"node ${'a'.repeat(201)}"}}`],
  ['package.json', '{"scripts":{"test":"node a\\nrm -rf /"}}'],
  ['package.json', '{"scripts":{"test":"node --test"},"devDependencies":{"a":"1"}}'],
  ['test_sum.txt', ''],
])('a repository with %s that says %j has no test command', (name, text) => {
  put(name, text);
  expect(findTestCommand(folder)).toBeNull();
});

test('a folder without a repository has no test command', () => {
  put('test.sh');
  rmSync(join(folder, '.git'), { recursive: true });
  expect(findTestCommand(folder)).toBeNull();
});

test('a folder `test.sh` is no test command', () => {
  mkdirSync(join(folder, 'test.sh'));
  expect(findTestCommand(folder)).toBeNull();
});

test('a Makefile that leads out of the folder, or that is too large, is not read', () => {
  const outside = mkdtempSync(join(tmpdir(), 'voidbox-outside-'));
  writeFileSync(join(outside, 'Makefile'), 'test:\n');
  symlinkSync(join(outside, 'Makefile'), join(folder, 'Makefile'));
  expect(findTestCommand(folder)).toBeNull();
  rmSync(outside, { recursive: true });
  rmSync(join(folder, 'Makefile'));
  put('Makefile', `test:\n${'#'.repeat(1024 * 1024)}`);
  expect(findTestCommand(folder)).toBeNull();
});

test('`init` writes a valid spec that fixes the tests, and its next step needs no key', async () => {
  put('package.json', `{"scripts":{"test":"node --test 'a b.js'"}}`);
  const typed = await typeCommand(['init', 'fix.yaml'], folder, {});
  expect(typed).toMatchObject({ code: 0, stderr: '' });
  expect(typed.stdout.split('\n').slice(0, 2)).toEqual([
    "Wrote fix.yaml: an agent fixes what `node --test 'a b.js'` finds. Next:",
    '  voidbox run fix.yaml --mock-agents   # no model, no key: the mock agent plays',
  ]);
  const text = readFileSync(join(folder, 'fix.yaml'), 'utf8');
  expect(text).not.toContain('voidbox.yaml');
  const { plan, diagnostics } = await loadText(text, join(folder, 'fix.yaml'), { baseDir: folder, params: {} });
  expect(diagnostics).toEqual([]);
  expect(plan?.stages.map(({ id }) => id)).toEqual(['fix', 'test']);
  expect(JSON.stringify(plan)).toContain("node --test 'a b.js'");
});

test('`init --json` has the test command, and a named template is written in a repository with tests too', async () => {
  put('test.sh');
  const own = await typeCommand(['init', '--json'], folder, {});
  expect(JSON.parse(own.stdout)).toMatchObject({ template: null, testCommand: 'sh ./test.sh' });
  const first = await typeCommand(['init', 'first.yaml', '--template', 'first', '--json'], folder, {});
  expect(JSON.parse(first.stdout)).toMatchObject({ template: 'first', testCommand: null });
});
