import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { loadText } from '../../domain/language/load.ts';
import { readStepMachine } from '../../sdk/read-skill.ts';
import { listFiles } from '../../sdk/list-files.ts';
import { createReadSpec } from '../../sdk/read-spec.ts';
import { typeCommand } from '../../test/rig/runs/typed-command.ts';
import { copyNeeded, readTemplates, type Template } from './templates.ts';

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
    readStepMachine,
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
    packages: null,
    testCommand: null,
    mounted: ['data'],
    parts: [],
    skills: [],
    files: [],
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

const NAMES_FILES = `# Names files.
kind: workflow
name: names-files
llm: { provider: claude }
sandbox: { mounts: [{ host: ./data, guest: /data }] }
workflow:
  output_step: each
  steps:
    - { name: style, prompt: Say it in style., skills: ["file:docs/style.md"] }
    - { name: repaired, prompt: Repair it., workspace: { git: ./repository } }
    - name: each
      for_each: files("notes/*.txt")
      run: { program: echo }
    - name: mounted
      for_each: files("data/*.csv")
      run: { program: echo }
`;

/** A folder of templates with one template, and the files at these paths. */
function templateOf(text: string, files: Readonly<Record<string, string>>): { folder: string; template: Template } {
  const folder = join(dir, 'templates');
  for (const [name, content] of Object.entries({ ...files, 'own.yaml': text })) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), content);
  }
  return { folder, template: readTemplates(folder).find(({ name }) => name === 'own')! };
}

test('documents of agents, listed files and repositories come with the template', async () => {
  const { template } = templateOf(NAMES_FILES, {
    'docs/style.md': 'Short.',
    'docs/other.md': 'Not named.',
    'notes/may.txt': 'May',
    'notes/may.csv': 'Not listed',
    'data/weather.csv': '1',
    'repository/a.c': 'int a;',
  });
  mkdirSync(join(dir, 'copy'));
  expect(await copyNeeded(template, join(dir, 'copy/own.yaml'))).toEqual({
    mounted: ['data'],
    parts: [],
    skills: [],
    files: ['docs/style.md', 'repository', 'notes/may.txt'],
  });
  expect(readdirSync(join(dir, 'copy'), { recursive: true }).toSorted()).toEqual([
    'data',
    'data/weather.csv',
    'docs',
    'docs/style.md',
    'notes',
    'notes/may.txt',
    'repository',
    'repository/a.c',
  ]);
});

test('a file outside of the folder of the templates is not copied, and a link is refused', async () => {
  writeFileSync(join(dir, 'secret.md'), 'mine');
  const outside = templateOf(NAMES_FILES.replace('docs/style.md', '../secret.md'), {
    'data/a.csv': '1',
    'repository/a.c': 'int a;',
  });
  mkdirSync(join(dir, 'copy'));
  expect((await copyNeeded(outside.template, join(dir, 'copy/own.yaml'))).files).toEqual(['repository']);
  symlinkSync(join(dir, 'secret.md'), join(outside.folder, 'data/link.csv'));
  await expect(copyNeeded(outside.template, join(dir, 'copy/own.yaml'))).rejects.toThrow(/data\/link\.csv/);
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
  expect(lines.at(-1)).toMatch(/^ {2}(npx )?voidbox validate voidbox\.yaml   # each mistake/);
  expect(lines.slice(0, -1).map((line) => line.trim().replaceAll('npx ', ''))).toEqual(
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
  expect((await typeCommand(['init', '--list'], dir, {})).stdout).toMatch(
    /^a first run:\n {2}first .*\n {2}hello +Three steps in one micro-VM$/m,
  );
  expect(existsSync(join(dir, 'voidbox.yaml'))).toBe(false);
});

test('the error for an unknown template suggests the name that was meant', async () => {
  const typed = await typeCommand(['init', '--template', 'aproval'], dir, {});
  expect(typed.code).toBe(2);
  expect(typed.stderr).toContain('Did you mean approval?');
});
