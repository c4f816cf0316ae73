import { execFile } from 'node:child_process';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { copyFile, mkdtemp, readdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findPackageRoot } from '../setup/package-root.ts';
import { serveOneRun } from './rig/servers/one-run-service.ts';
import { type InstalledPackage, installPackage } from './rig/runs/packed.ts';

describe('the package, installed from its tarball into an empty folder', () => {
  let installed: InstalledPackage;
  beforeAll(async () => {
    installed = await installPackage();
  }, 300_000);
  afterAll(() => installed.remove());

  it('answers --help', async () => {
    const result = await installed.voidbox(['--help']);
    expect(result.exitCode).toBe(0);
    expect(result.stdout).toContain('voidbox COMMAND');
  });

  it('validates a spec that it wrote itself', async () => {
    expect(await installed.voidbox(['init', 'first.yaml'])).toMatchObject({ exitCode: 0 });
    expect(await installed.voidbox(['validate', 'first.yaml'])).toMatchObject({ exitCode: 0 });
    // It names the schema that the package brings, as the YAML language server reads it.
    const [, schema] = /^# yaml-language-server: \$schema=(\S+)\n/.exec(
      readFileSync(join(installed.folder, 'first.yaml'), 'utf8'),
    )!;
    expect(JSON.parse(readFileSync(join(installed.folder, schema!), 'utf8'))).toMatchObject({
      $schema: 'http://json-schema.org/draft-07/schema#',
    });
  });

  it('has one copy of each package of Temporal, in the version that it names as its peer', async () => {
    const manifest = async (path: string): Promise<{ version: string; peerDependencies?: Record<string, string> }> =>
      JSON.parse(await readFile(join(modules, path, 'package.json'), 'utf8')) as never;
    const modules = join(installed.folder, 'node_modules');
    const copies = (await readdir(modules, { recursive: true }))
      .flatMap((path) => /^(?:.*\/)?@temporalio\/([^/]+)\/package\.json$/.exec(path)?.[1] ?? [])
      .toSorted();
    expect(copies).toEqual([...new Set(copies)]);
    const { peerDependencies = {} } = await manifest('voidbox');
    expect(Object.keys(peerDependencies)).toEqual(
      ['activity', 'client', 'common', 'worker', 'workflow'].map((name) => `@temporalio/${name}`),
    );
    for (const [name, version] of Object.entries(peerDependencies))
      expect((await manifest(name)).version).toBe(version);
  });

  it('brings the plugin for workers of other people', async () => {
    await writeFile(
      join(installed.folder, 'doors.mjs'),
      `import { createVoidboxPlugin } from 'voidbox/temporal';
       import { executePipeline, runCommand, voidboxRun } from 'voidbox/temporal/workflows';
       console.log(createVoidboxPlugin().name, typeof executePipeline, typeof runCommand, typeof voidboxRun);`,
    );
    // As the samples of Temporal are written.
    await writeFile(
      join(installed.folder, 'doors.cjs'),
      `const { createVoidboxPlugin } = require('voidbox/temporal');
       const { executePipeline, runCommand, voidboxRun } = require('voidbox/temporal/workflows');
       console.log(createVoidboxPlugin().name, typeof executePipeline, typeof runCommand, typeof voidboxRun);`,
    );
    for (const file of ['doors.mjs', 'doors.cjs']) {
      const { stdout } = await promisify(execFile)(process.execPath, [file], { cwd: installed.folder });
      expect(stdout).toBe('voidbox function function function\n');
    }
  });

  it('runs the example of the client against a service that breaks its stream', async () => {
    const service = await serveOneRun();
    try {
      await copyFile(
        join(findPackageRoot(), 'dist/examples/definitions/client.js'),
        join(installed.folder, 'client.mjs'),
      );
      await writeFile(join(installed.folder, 'any.yaml'), 'the text of a spec');
      const env = { ...process.env, VOIDBOX_SERVER: service.url, VOIDBOX_TOKEN: service.token };
      const program = { cwd: installed.folder, env, timeout: 60_000 };
      const { stdout } = await promisify(execFile)(process.execPath, ['client.mjs', 'any.yaml'], program);
      expect(stdout).toBe('started r-1\nfirst: succeeded\nsecond: failed\nthe run has failed\n');
      expect(service.asked).toEqual([
        'POST runs',
        'GET runs/r-1/events',
        'GET runs/r-1/events 1',
        'GET runs/r-1/result',
      ]);
    } finally {
      await service.close();
    }
    // As programs in CommonJS load it.
    const args = ['--eval', `console.log(Object.keys(require('voidbox/client')).toSorted().join(' '))`];
    const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: installed.folder, timeout: 60_000 });
    expect(stdout).toBe('ApiError ConnectionError ForeignAnswerError VoidboxError createClient\n');
  });

  it('says what is wrong with a bad spec and exits with 2', async () => {
    await writeFile(join(installed.folder, 'bad.yaml'), 'api_version: v1\nkind: nonsense\nname: x\n');
    const result = await installed.voidbox(['validate', 'bad.yaml']);
    expect(result.exitCode).toBe(2);
    expect(result.stdout + result.stderr).toContain('bad.yaml:2:');
  });

  it('runs a skill from its source, and builds one that needs nothing of the installation', async () => {
    await writeFile(
      join(installed.folder, 'greeter.ts'),
      `import { skill, terminal, z } from 'voidbox/skill-kit';
       import { z as own } from 'zod';
       export default skill({ name: 'greeter', description: 'Greets.', entry: 'ask', params: own.object({ who: own.string() }) })
         .step('ask', { prompt: ({ params }) => 'Greet ' + params.who, response: z.object({ text: z.string() }), next: terminal })
         .build();`,
    );
    const start = ['start', '--params', '{"who":"Ada"}'];
    // A file that was made there and removed again would have changed the folder's time.
    const modules = join(installed.folder, 'node_modules');
    const installation = [
      modules,
      join(modules, 'voidbox'),
      join(modules, 'voidbox/dist/skill-kit'),
      join(modules, 'voidbox/dist/skill-kit/bundle'),
    ];
    const times = (): number[] => installation.map((path) => statSync(path).mtimeMs);
    const before = times();
    const ran = await installed.voidbox(['skill', 'run', 'greeter.ts', ...start]);
    expect(ran).toMatchObject({ exitCode: 0 });
    expect(JSON.parse(ran.stdout)).toMatchObject({ kind: 'prompt', prompt: '<prompt>\nGreet Ada\n</prompt>' });
    expect(await installed.voidbox(['skill', 'build', 'greeter.ts', '-o', 'out/greeter'])).toMatchObject({
      exitCode: 0,
    });
    expect(times()).toEqual(before);
    const alone = await mkdtemp(join(tmpdir(), 'voidbox-alone-'));
    try {
      await rename(join(installed.folder, 'out/greeter'), join(alone, 'greeter'));
      const { stdout } = await promisify(execFile)(join(alone, 'greeter/scripts/run'), start, { cwd: alone });
      expect(stdout).toBe(ran.stdout);
    } finally {
      await rm(alone, { recursive: true });
    }
  });

  it('gives a program a simulated VM, and loads nothing of Temporal for it', async () => {
    const loaded = join(installed.folder, 'loaded.cjs');
    await writeFile(loaded, `process.on('exit', () => console.log(Object.keys(require.cache).join('\\n')));`);
    const program = `import { Sandbox } from 'voidbox/sandbox';
      const vm = await Sandbox.launch({ mode: 'mock' });
      console.log((await vm.exec('echo', ['from a mock'])).stdout);
      await vm.close();`;
    await writeFile(join(installed.folder, 'direct.mjs'), program);
    const args = ['--require', loaded, 'direct.mjs'];
    const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: installed.folder, timeout: 60_000 });
    expect(stdout).toContain('from a mock');
    expect(stdout).toContain(loaded);
    expect(stdout).not.toContain('@temporalio');
  });

  it('holds the Rust sources, the workflow bundle and the licence, and no tests', async () => {
    const root = join(installed.folder, 'node_modules', 'voidbox');
    for (const path of [
      'Cargo.lock',
      'guest/agent/src/main.rs',
      'guest/mock-agent/src/main.rs',
      'native/keeper/src/main.rs',
      'guest/kernel/voidbox.config',
      'dist/workflow-bundle.js',
      'LICENSE',
    ]) {
      expect(existsSync(join(root, path)), path).toBe(true);
    }
    const files = await readdir(root, { recursive: true });
    expect(
      files.filter(
        (file) =>
          /\.test\.|\.tests\/|\/target\/|^dist\/.*\b(?:testing|conformance|suite|rig)\b/.test(file) &&
          !file.startsWith('node_modules'),
      ),
    ).toEqual([]);
  });
});

describe('a checkout, used from an empty folder that is not its own', () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'voidbox-own-folder-'));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  const type = async (program: string, args: readonly string[], path = ''): Promise<string> => {
    const env: NodeJS.ProcessEnv = {
      ...process.env,
      VOIDBOX_STATE_DIR: join(folder, '.state'),
      PATH: `${path}:${process.env['PATH'] ?? ''}`,
    };
    delete env['npm_command'];
    return (await promisify(execFile)(program, args, { cwd: folder, env, timeout: 60_000 })).stdout;
  };

  it('is started by npx with its path, and names commands that work there', async () => {
    const root = findPackageRoot();
    expect(await type('npx', [root, 'init', 'by-npx.yaml'])).toContain(`  npx ${root} validate by-npx.yaml `);
    expect(await type('npx', [root, 'validate', 'by-npx.yaml'])).toContain('valid: by-npx.yaml');
  });

  it('is started by a link in a folder of PATH', async () => {
    await symlink(join(findPackageRoot(), 'bin/voidbox.js'), join(folder, 'voidbox'));
    expect(await type('voidbox', ['init', 'by-path.yaml'], folder)).toContain('  voidbox validate by-path.yaml ');
    expect(await type('voidbox', ['validate', 'by-path.yaml'], folder)).toContain('valid: by-path.yaml');
  });
});
