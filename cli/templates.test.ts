import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { loadText } from '../domain/spec/load.ts';
import { readSkill } from '../sdk/read-skill.ts';
import { listFiles } from '../sdk/list-files.ts';
import { createReadSpec } from '../sdk/read-spec.ts';
import { typeCommand } from '../test/rig/typed-command.ts';
import { readTemplates } from './templates.ts';

const TEMPLATES = readTemplates().map(({ name }) => name);

let dir: string;
beforeEach(() => (dir = mkdtempSync(join(tmpdir(), 'voidbox-templates-'))));
afterEach(() => rmSync(dir, { recursive: true, force: true }));

test.each(TEMPLATES)('the copy of %s is valid where it lies, and says how it is run', async (name) => {
  const typed = await typeCommand(['init', 'own.yaml', '--template', name], dir, {});
  expect(typed).toMatchObject({ code: 0, stderr: '' });
  const text = readFileSync(join(dir, 'own.yaml'), 'utf8');
  expect(text).toContain('own.yaml');
  expect(text).not.toContain('examples/');
  const { plan, diagnostics } = await loadText(text, 'own.yaml', {
    baseDir: dir,
    params: {},
    readSkill,
    readSpec: createReadSpec([dir]),
    listFiles,
  });
  expect(diagnostics.filter(({ severity }) => severity === 'error')).toEqual([]);
  for (const { source } of plan!.scopes.flatMap(({ sandbox }) => sandbox.mounts))
    expect(existsSync(source.path), source.path).toBe(true);
});

test('folders come with it, and nothing in them is overwritten', async () => {
  const typed = await typeCommand(['init', '--template', 'weather-dag', '--json'], dir, {});
  expect(JSON.parse(typed.stdout)).toEqual({
    file: join(dir, 'voidbox.yaml'),
    template: 'weather-dag',
    mounted: ['data'],
    parts: [],
    skills: [],
  });
  const using = await typeCommand(['init', 'uses.yaml', '--template', 'uses', '--json'], dir, {});
  expect(JSON.parse(using.stdout)).toMatchObject({ mounted: ['data'], parts: ['parts/city.yaml'] });
  writeFileSync(join(dir, 'data/weather.csv'), 'mine');
  expect((await typeCommand(['init', '--template', 'weather-dag', '--force'], dir, {})).code).toBe(0);
  expect(readFileSync(join(dir, 'data/weather.csv'), 'utf8')).toBe('mine');
});

test('files that `skill.use` names come with the template', async () => {
  const typed = await typeCommand(['init', '--template', 'review-skill', '--json'], dir, {});
  expect(JSON.parse(typed.stdout)).toMatchObject({ skills: ['skills/parallel-review.ts'] });
  expect(existsSync(join(dir, 'skills/parallel-review.ts'))).toBe(true);
});

test.each([
  [
    'fix-a-test',
    [
      'voidbox run voidbox.yaml --param repository=. --mock-agents   # no model, no key: the mock agent plays',
      'ANTHROPIC_API_KEY=… npx voidbox run voidbox.yaml --param repository=.',
    ],
  ],
  ['first', ['voidbox run voidbox.yaml --param who=world']],
])('the next commands of %s have its parameter, its key and `--mock-agents`', async (name, commands) => {
  const { stdout } = await typeCommand(['init', '--template', name], dir, {});
  const lines = stdout.trimEnd().split('\n').slice(1);
  expect(lines[0]).toMatch(/^ {2}(npx )?voidbox validate voidbox\.yaml$/);
  expect(lines.slice(1).map((line) => line.trim().replaceAll('npx ', ''))).toEqual(
    commands.map((command) => command.replaceAll('npx ', '')),
  );
});

test.each(['fix-a-test', 'review-a-patch', 'release-notes'])(
  '%s works in the repository that holds it',
  async (name) => {
    const text = readTemplates().find((template) => template.name === name)!.text;
    const { plan } = await loadText(text, 'own.yaml', { baseDir: dir, params: {}, listFiles });
    const workspaces = plan!.stages.flatMap(({ workspace }) =>
      workspace === undefined ? [] : [JSON.stringify(workspace)],
    );
    expect(workspaces.filter((each) => each.includes(`"path":"${dir}"`)).length).toBeGreaterThan(0);
  },
);

test('the help and `--list` name them all, each with a line', async () => {
  expect(TEMPLATES).toContain('hello');
  const help = (await typeCommand(['init', '--help'], dir, {})).stdout.replaceAll(/\s+/g, ' ');
  expect(help).toContain(TEMPLATES.join(', '));
  const { templates } = JSON.parse((await typeCommand(['init', '--list', '--json'], dir, {})).stdout) as {
    readonly templates: readonly { readonly name: string; readonly about: string }[];
  };
  expect(templates.map(({ name }) => name)).toEqual(TEMPLATES);
  for (const { about } of templates) expect(about).toMatch(/^[A-Z].{10,140}[^.:]$/);
  expect((await typeCommand(['init', '--list'], dir, {})).stdout).toMatch(/^hello +Three steps in one micro-VM$/m);
  expect(existsSync(join(dir, 'voidbox.yaml'))).toBe(false);
});

test('a name that is none is told, with the one that was meant', async () => {
  const typed = await typeCommand(['init', '--template', 'aproval'], dir, {});
  expect(typed.code).toBe(2);
  expect(typed.stderr).toContain('Did you mean approval?');
});
