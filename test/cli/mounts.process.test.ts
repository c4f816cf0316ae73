/** The messages of `validate` and `run` about mounts on this host, before anything is started. */
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { makeStateFolder } from '../rig/runs/state-folder.ts';

const BIN = fileURLToPath(new URL('../../bin/voidbox.js', import.meta.url));

let dir: string;
beforeAll(() => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), 'voidbox-cli-mounts-')));
  for (const name of ['spec/data', 'other', 'state']) mkdirSync(join(dir, name), { recursive: true });
  const steps = 'workflow:\n  steps:\n    - { name: a, run: { program: echo, args: [hi] } }\n';
  const mounts = (...lines: readonly string[]): string =>
    `kind: workflow\nname: m\nsandbox:\n  mode: mock\n  mounts:\n${lines.map((line) => `    - ${line}\n`).join('')}${steps}`;
  const own = '{ host: ./data, guest: /own }';
  writeFileSync(join(dir, 'spec/own.yaml'), mounts(own));
  writeFileSync(
    join(dir, 'spec/two.yaml'),
    mounts(own, `{ host: ${dir}/other, guest: /data }`, '{ host: ./gone, guest: /gone }'),
  );
  writeFileSync(join(dir, 'spec/gone.yaml'), mounts('{ host: ./gone, guest: /gone }'));
  writeFileSync(join(dir, 'spec/one.yaml'), mounts(`{ host: ${dir}/other, guest: /data }`));
  writeFileSync(
    join(dir, 'spec/one.ts'),
    `import { defineWorkflow, step } from 'voidbox';\n\nconst a = step('a', ['echo'], { sandbox: { mounts: [{ host: '${dir}/other', guest: '/d' }] } });\nexport default defineWorkflow({ name: 'm', steps: [a] });\n`,
  );
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

interface Typed {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function type(
  args: readonly string[],
  variables: Readonly<Record<string, string>> = {},
  cwd = join(dir, 'spec'),
): Promise<Typed> {
  const env: NodeJS.ProcessEnv = { ...process.env, VOIDBOX_STATE_DIR: join(dir, 'state'), ...variables };
  for (const name of ['TEMPORAL_ADDRESS', 'TEMPORAL_PROFILE', 'TEMPORAL_CONFIG_FILE', 'npm_command'])
    if (variables[name] === undefined) delete env[name];
  return new Promise((resolve) => {
    const child = execFile(process.execPath, [BIN, ...args], { cwd, env, timeout: 60_000 }, (_error, stdout, stderr) =>
      resolve({ code: child.exitCode ?? -1, stdout, stderr }),
    );
  });
}

test('a folder that exists only below the working directory is named in the message, and not mounted', async () => {
  const elsewhere = join(dir, 'elsewhere');
  mkdirSync(join(elsewhere, 'gone'), { recursive: true });
  const where = `which cannot be read: it does not exist; it is only below the working directory: ${elsewhere}/gone`;
  const remedy = `Move ${elsewhere}/gone there, or resolve relative paths from the working folder: --base-dir ${elsewhere}`;
  const valid = await type(['validate', '../spec/gone.yaml'], {}, elsewhere);
  expect(valid.code).toBe(0);
  expect(valid.stderr).toContain(`${dir}/spec/gone, ${where}`);
  expect(valid.stderr).toContain(remedy);
  const refused = await type(['run', '../spec/gone.yaml', '--json'], {}, elsewhere);
  expect(refused.code).toBe(3);
  expect(JSON.parse(refused.stderr)).toEqual({
    error: expect.objectContaining({
      code: 'cli/mount-missing',
      message: expect.stringContaining(where) as string,
      remedy,
    }) as object,
  });
  expect(existsSync(join(dir, 'state/stack.json'))).toBe(false);
});

test('the message about a repository that a parameter names has the place of the placeholder in the spec', async () => {
  writeFileSync(
    join(dir, 'spec/repository.yaml'),
    'kind: agent\nname: a\nparams: { repository: ./gone }\nagent: { prompt: hi, workspace: { git: "${{ params.repository }}" } }\n',
  );
  for (const [param, name] of [
    [[], 'gone'],
    [['--param', 'repository=./away'], 'away'],
  ] as const)
    for (const command of ['validate', 'run']) {
      const { stderr } = await type([command, 'repository.yaml', ...param], { ANTHROPIC_API_KEY: 'none' });
      expect(stderr).toMatch(/repository\.yaml:4:40: .*the spec works in the repository/);
      expect(stderr).toContain(`${dir}/spec/${name}, which cannot be read`);
    }
});

test('`validate` says what `run` would refuse here, with place and remedy; the spec is valid all the same', async () => {
  const { code, stdout, stderr } = await type(['validate', 'two.yaml']);
  expect([code, stdout]).toEqual([0, expect.stringMatching(/^valid: two\.yaml/)]);
  expect(stderr.replaceAll(dir, 'DIR')).toBe(
    `
on this host \`run\` would refuse:
two.yaml:7:15: warning[cli/mount-refused]: the spec mounts DIR/other; it is neither below the spec's folder nor allowed on this host
  7 │     - { host: ${dir}/other, guest: /data }
    │               ^
  help: Move it below the spec's folder, DIR/spec, or allow it: voidbox up --allow-mounts DIR/other

two.yaml:8:15: warning[cli/mount-missing]: the spec mounts DIR/spec/gone, which cannot be read: it does not exist
  8 │     - { host: ./gone, guest: /gone }
    │               ^
  help: Create it, or correct \`host\` of the mount; relative paths start from the spec's folder, DIR/spec

2 warnings
`.replaceAll(dir, 'DIR'),
  );
});

test.each([
  ['own.yaml', []],
  ['one.yaml', ['cli/mount-refused one.yaml:6:15']],
  ['two.yaml', ['cli/mount-refused two.yaml:7:15', 'cli/mount-missing two.yaml:8:15']],
  ['one.ts', ['cli/mount-refused one.ts:3:11']],
])('`validate --json` has it in a field of its own: %s', async (file, expected) => {
  const { code, stdout } = await type(['validate', file, '--json']);
  const { valid, diagnostics, onThisHost } = JSON.parse(stdout) as {
    readonly valid: boolean;
    readonly diagnostics: readonly unknown[];
    readonly onThisHost: {
      readonly server: string;
      readonly refusedMounts: readonly {
        readonly code: string;
        readonly file: string;
        readonly line: number;
        readonly column: number;
      }[];
    };
  };
  expect([code, valid, diagnostics, onThisHost.server]).toEqual([0, true, [], 'embedded']);
  expect(onThisHost.refusedMounts.map((mount) => `${mount.code} ${mount.file}:${mount.line}:${mount.column}`)).toEqual(
    expected,
  );
});

test('`validate` warns of a writable mount of a repository', async () => {
  mkdirSync(join(dir, 'spec/app/.git'), { recursive: true });
  const mounts = ['{ host: ./app, guest: /a, mode: rw }', '{ host: ./data, guest: /b, mode: rw }'];
  const spec = (git: string): string =>
    `kind: workflow\nname: m\nsandbox:\n  mounts:\n    - ${mounts.join(`\n    - `).replace(' }', `${git} }`)}\nworkflow:\n  steps:\n    - { name: a, run: { program: echo } }\n`;
  writeFileSync(join(dir, 'spec/app.yaml'), spec(''));
  const told = await type(['validate', 'app.yaml']);
  expect(told.code).toBe(0);
  expect(told.stderr.replaceAll(dir, 'DIR')).toContain(
    'app.yaml:5:15: warning[cli/mount-git]: the spec mounts the repository DIR/spec/app with `mode: rw`: changes of a stage in `.git`, such as a commit, are not copied back\n',
  );
  expect(told.stderr).toMatch(/1 warning\n$/);
  writeFileSync(join(dir, 'spec/app.yaml'), spec(', git: writable'));
  const { stdout } = await type(['validate', 'app.yaml', '--json']);
  expect(JSON.parse(stdout)).toMatchObject({
    diagnostics: [],
    onThisHost: {
      writableRepositories: [{ code: 'cli/mount-git', message: expect.stringContaining('can run programs') as string }],
    },
  });
});

test('with your own server the host of the worker decides, and the messages name it', async () => {
  const own = { TEMPORAL_ADDRESS: '127.0.0.1:9' };
  const told = await type(['validate', 'one.yaml'], own);
  expect([told.code, told.stderr]).toEqual([
    0,
    '\nmounts: TEMPORAL_* names your own Temporal server, so the host of the worker decides: voidbox worker --allow-mounts FOLDER\n',
  ]);
  expect(JSON.parse((await type(['validate', 'one.yaml', '--json'], own)).stdout)).toMatchObject({
    onThisHost: { server: 'own', refusedMounts: null },
  });
  const run = await type(['run', 'one.yaml', '--allow-mounts', dir], own);
  expect([run.code, run.stderr]).toEqual([
    2,
    `error: \`--allow-mounts\` of \`run\` works only with the embedded stack, but TEMPORAL_* names your own Temporal server, where the worker decides\n  Pass it to the worker on its host: voidbox worker --allow-mounts ${dir}\n`,
  ]);
});

test('`run` refuses before anything is started, and allows nothing by that', async () => {
  const refused = await type(['run', 'two.yaml', '--allow-mounts', join(dir, 'other')]);
  expect([refused.code, refused.stderr]).toEqual([3, expect.stringContaining('spec/gone, which cannot be read')]);
  const elsewhere = await type(['run', 'one.yaml']);
  expect([elsewhere.code, elsewhere.stderr]).toEqual([
    3,
    `error: one.yaml:6:15: the spec mounts ${dir}/other; it is neither below the spec's folder nor allowed on this host\n  Move it below the spec's folder, ${dir}/spec, or allow it: voidbox up --allow-mounts ${dir}/other\n`,
  ]);
  const mistyped = await type(['run', 'one.yaml', '--allow-mounts', 'gone']);
  expect([mistyped.code, mistyped.stderr]).toEqual([
    2,
    expect.stringContaining('--allow-mounts: `gone` does not exist'),
  ]);
  for (const name of ['stack.lock', 'mounts.json']) expect(existsSync(join(dir, 'state', name))).toBe(false);
});

test('a file of permissions that is damaged is an error that names it, not a permission', async () => {
  const stateDir = join(dir, 'damaged-state');
  writeFileSync(join(makeStateFolder(stateDir), 'mounts.json'), '{"folders":[');
  for (const command of ['validate', 'run']) {
    const { code, stderr } = await type([command, 'one.yaml'], { VOIDBOX_STATE_DIR: stateDir });
    expect([code, stderr]).toEqual([3, expect.stringContaining(`${stateDir}/mounts.json`)]);
    expect(stderr).toContain('voidbox up --no-allow-mounts');
  }
});
