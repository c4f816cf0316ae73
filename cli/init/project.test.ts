import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { loadText } from '../../domain/language/load.ts';
import { typeCommand } from '../../test/rig/runs/typed-command.ts';
import { findTests } from './project.ts';

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
  expect(findTests(folder)).toEqual({ command, packages: null });
});

const NPM = { manager: 'npm', image: 'node:22', registry: 'npm' };
const PIP = { manager: 'pip', image: 'python:3.13', registry: 'pypi' };
const VITEST = '{"scripts":{"test":"vitest run"},"devDependencies":{"vitest":"1"}}';

test.each([
  [{ 'package.json': VITEST }, 'npm test', { ...NPM, install: 'npm install' }],
  [{ 'package.json': VITEST, 'package-lock.json': '{}' }, 'npm test', { ...NPM, install: 'npm ci' }],
  [
    { 'package.json': '{"scripts":{"test":"node --test"},"dependencies":{"a":"1"}}' },
    'npm test',
    { ...NPM, install: 'npm install' },
  ],
  [{ 'pytest.ini': '' }, 'python3 -m pytest', { ...PIP, install: 'python3 -m pip install pytest' }],
  [{ 'tests/conftest.py': '' }, 'python3 -m pytest', { ...PIP, install: 'python3 -m pip install pytest' }],
  [
    { 'pyproject.toml': '[tool.pytest.ini_options]\n' },
    'python3 -m pytest',
    { ...PIP, install: 'python3 -m pip install pytest' },
  ],
  [
    { 'tests/test_sum.py': 'import sys\nfrom pytest import raises\n', 'requirements.txt': 'requests\n' },
    'python3 -m pytest',
    { ...PIP, install: 'python3 -m pip install pytest -r requirements.txt' },
  ],
  [
    { 'test_sum.py': 'import unittest\n', 'requirements-dev.txt': '', 'requirements.txt': '' },
    'python3 -m unittest',
    { ...PIP, install: 'python3 -m pip install -r requirements-dev.txt' },
  ],
])('a repository with %j has tests that need packages', (files, command, packages) => {
  for (const [name, text] of Object.entries(files)) put(name, text);
  expect(findTests(folder)).toEqual({ command, packages });
});

test.each(['pnpm-lock.yaml', 'yarn.lock', 'bun.lock'])('a repository with %s needs another package manager', (name) => {
  put('package.json', VITEST);
  put(name);
  expect(findTests(folder)).toBeNull();
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
  ['package.json', '{"scripts":{},"devDependencies":{"a":"1"}}'],
  ['package.json', '{"scripts":{"test":"echo \\"Error: no test specified\\" && exit 1"},"devDependencies":{"a":"1"}}'],
  ['test_sum.txt', ''],
])('a repository with %s that says %j has no test command', (name, text) => {
  put(name, text);
  expect(findTests(folder)).toBeNull();
});

test('a folder without a repository has no test command', () => {
  put('test.sh');
  rmSync(join(folder, '.git'), { recursive: true });
  expect(findTests(folder)).toBeNull();
});

test('a folder `test.sh` is no test command', () => {
  mkdirSync(join(folder, 'test.sh'));
  expect(findTests(folder)).toBeNull();
});

test('a Makefile that leads out of the folder, or that is too large, is not read', () => {
  const outside = mkdtempSync(join(tmpdir(), 'voidbox-outside-'));
  writeFileSync(join(outside, 'Makefile'), 'test:\n');
  symlinkSync(join(outside, 'Makefile'), join(folder, 'Makefile'));
  expect(findTests(folder)).toBeNull();
  rmSync(outside, { recursive: true });
  rmSync(join(folder, 'Makefile'));
  put('Makefile', `test:\n${'#'.repeat(1024 * 1024)}`);
  expect(findTests(folder)).toBeNull();
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

test.each([
  ['fix.yaml', 'docker export $(docker create node:22) > image.tar'],
  ['sub/fix.yaml', '(cd sub && docker export $(docker create node:22) > image.tar)'],
])('`init %s` names first the command that makes an image for tests with packages', async (file, command) => {
  for (const each of ['', 'sub/']) put(`${each}package.json`, VITEST);
  mkdirSync(join(folder, 'sub/.git'));
  const { code, stdout } = await typeCommand(['init', file], folder, {});
  expect(code).toBe(0);
  expect(stdout.split('\n').slice(0, 3)).toEqual([
    `Wrote ${file}: an agent fixes what \`npm test\` finds. Next:`,
    `  ${command}   # an image with npm; without Docker: voidbox explain your-own-image`,
    `  voidbox run ${file} --mock-agents   # no model, no key: the mock agent plays`,
  ]);
  const path = join(folder, file);
  const text = readFileSync(path, 'utf8');
  expect(text).toContain('#   docker export $(docker create node:22) > image.tar\n');
  const { plan, diagnostics } = await loadText(text, path, { baseDir: dirname(path), params: {} });
  expect(diagnostics).toEqual([]);
  expect(plan?.scopes.map(({ sandbox }) => sandbox)).toMatchObject([
    {
      needs: { image: join(dirname(path), 'image.tar') },
      egress: { allow: [{ name: 'api.anthropic.com' }, { name: 'registry.npmjs.org' }] },
    },
    { needs: { image: join(dirname(path), 'image.tar') }, egress: { allow: [{ name: 'registry.npmjs.org' }] } },
  ]);
  expect(JSON.stringify(plan)).toContain('npm install && npm test');
});

test('`init` names the template with an agent if it does not know the tests of a repository', async () => {
  const hint = 'voidbox init fix.yaml --template fix-a-test   # an agent for the tests of a repository\n';
  expect((await typeCommand(['init', 'a.yaml'], folder, {})).stdout).toMatch(new RegExp(`  ${hint}$`));
  expect((await typeCommand(['init', 'b.yaml', '--template', 'first'], folder, {})).stdout).not.toContain(hint);
  rmSync(join(folder, '.git'), { recursive: true });
  expect((await typeCommand(['init', 'c.yaml'], folder, {})).stdout).not.toContain(hint);
});

test('`init --json` has the test command, and a named template is written in a repository with tests too', async () => {
  put('test.sh');
  const own = await typeCommand(['init', '--json'], folder, {});
  expect(JSON.parse(own.stdout)).toMatchObject({ template: null, testCommand: 'sh ./test.sh', packages: null });
  const first = await typeCommand(['init', 'first.yaml', '--template', 'first', '--json'], folder, {});
  expect(JSON.parse(first.stdout)).toMatchObject({ template: 'first', testCommand: null });
  rmSync(join(folder, 'test.sh'));
  put('pytest.ini');
  const pytest = await typeCommand(['init', 'pytest.yaml', '--json'], folder, {});
  expect(JSON.parse(pytest.stdout)).toMatchObject({ testCommand: 'python3 -m pytest', packages: { manager: 'pip' } });
});
