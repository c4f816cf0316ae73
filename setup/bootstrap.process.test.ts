import { spawn } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { CHECKOUT_ROOM_MIB, checkoutProblems, type Machine } from './checkout-needs.mjs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

const HERE = dirname(fileURLToPath(import.meta.url));
const LOCK = {
  packages: {
    '': {},
    'node_modules/typescript': { integrity: 'sha512-a' },
    'node_modules/only-elsewhere': { integrity: 'sha512-b', optional: true },
  },
};

let checkout: string;

function put(path: string, text: string, mode = 0o644): void {
  mkdirSync(dirname(join(checkout, path)), { recursive: true });
  writeFileSync(join(checkout, path), text, { mode });
}

function calls(): string[] {
  return existsSync(join(checkout, 'calls')) ? readFileSync(join(checkout, 'calls'), 'utf8').trim().split('\n') : [];
}

/** A checkout whose npm and compilers only record their calls. */
beforeEach(() => {
  checkout = mkdtempSync(join(tmpdir(), 'voidbox-checkout-'));
  mkdirSync(join(checkout, 'setup'));
  for (const name of [
    'bootstrap.mjs',
    'checkout-needs.mjs',
    'file-lock.mjs',
    'kvm-record.mjs',
    'test-folder.mjs',
    'test-report.mjs',
  ])
    copyFileSync(join(HERE, name), join(checkout, 'setup', name));
  put('tsconfig.json', '{}');
  put('tsconfig.base.json', '{}');
  put('package-lock.json', JSON.stringify(LOCK));
  put('domain/a.ts', 'export {};');
  put('cli/b.ts', 'export {};');
  const note = (what: string): string => `require('node:fs').appendFileSync('calls', '${what}\\n');`;
  put('tsc.cjs', note('tsc'));
  put(
    'dist/workers/build-bundle.js',
    "import { appendFileSync } from 'node:fs'; appendFileSync('calls', 'bundle\\n');",
  );
  put(
    'setup/bundle-programs.mjs',
    `import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs';
    appendFileSync('calls', 'cli\\n');
    mkdirSync('dist/cli-bundle', { recursive: true });
    writeFileSync('dist/cli-bundle/main.cjs', '');
    mkdirSync('dist/worker-bundle', { recursive: true });
    writeFileSync('dist/worker-bundle/serve-worker.cjs', '');
    mkdirSync('dist/api-bundle', { recursive: true });
    writeFileSync('dist/api-bundle/service.cjs', '');
    mkdirSync('dist/stack-bundle', { recursive: true });
    writeFileSync('dist/stack-bundle/supervise.cjs', '');
    mkdirSync('dist/door-bundle', { recursive: true });
    writeFileSync('dist/door-bundle/skill-door.cjs', '');`,
  );
  put('package.json', '{ "type": "module" }');
  put(
    'bin/npm',
    `#!/bin/sh\necho npm >> calls\nsleep 0.3\nmkdir -p node_modules/typescript/bin\ncp tsc.cjs node_modules/typescript/bin/tsc\necho '{"type":"commonjs"}' > node_modules/typescript/package.json\ncp package-lock.json node_modules/.package-lock.json\n`,
    0o755,
  );
  for (const name of ['sh', 'flock', 'cat', 'cp', 'mkdir', 'sleep'])
    symlinkSync(`/usr/bin/${name}`, join(checkout, 'bin', name));
});
afterEach(() => rmSync(checkout, { recursive: true, force: true }));

interface Ended {
  readonly exitCode: number | null;
  readonly stderr: string;
}

const bootstrap = (...args: readonly string[]): Promise<Ended> => bootstrapWith({}, ...args);

function bootstrapWith(variables: Readonly<Record<string, string>>, ...args: readonly string[]): Promise<Ended> {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [join(checkout, 'setup', 'bootstrap.mjs'), ...args], {
      env: { PATH: join(checkout, 'bin'), HOME: checkout, ...variables },
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let stderr = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text;
    });
    child.once('close', (exitCode) => resolve({ exitCode, stderr }));
  });
}

describe('bootstrap', () => {
  it('installs, compiles and bundles a fresh checkout once, though two start at once', async () => {
    const both = await Promise.all([bootstrap('build'), bootstrap('build')]);
    expect(both.map((result) => result.exitCode)).toEqual([0, 0]);
    expect(calls()).toEqual(['npm', 'tsc', 'cli', 'bundle', 'tsc']);
  });

  it('does nothing when nothing has changed', async () => {
    await bootstrap('build');
    const before = calls();
    expect(await bootstrap('build')).toEqual({ exitCode: 0, stderr: '' });
    expect(calls()).toEqual(before);
  });

  it('compiles again after a change, and bundles again only for what is in the bundle', async () => {
    await bootstrap('build');
    put('cli/b.ts', 'export const changed = 1;');
    await bootstrap('build');
    expect(calls().slice(5)).toEqual(['tsc', 'cli', 'tsc']);
    put('domain/a.ts', 'export const changed = 1;');
    await bootstrap('build');
    expect(calls().slice(8)).toEqual(['tsc', 'cli', 'bundle', 'tsc']);
  });

  it.each(['cli-bundle', 'worker-bundle', 'api-bundle', 'stack-bundle', 'door-bundle'])(
    'bundles the programs again if %s is missing',
    async (bundle) => {
      await bootstrap('build');
      rmSync(join(checkout, 'dist', bundle), { recursive: true });
      await bootstrap('build');
      expect(calls().slice(5)).toEqual(['tsc', 'cli']);
    },
  );

  it('installs again when package-lock.json names something else', async () => {
    await bootstrap('build');
    put(
      'package-lock.json',
      JSON.stringify({ packages: { ...LOCK.packages, 'node_modules/new': { integrity: 'sha512-c' } } }),
    );
    await bootstrap('build');
    expect(calls().filter((call) => call === 'npm')).toHaveLength(2);
  });

  it('tries again after a compiler that failed', async () => {
    put('tsc.cjs', 'process.exit(1);');
    const failed = await bootstrap('build');
    expect(failed.exitCode).toBe(1);
    expect(failed.stderr).toContain('compiling failed (exit code 1)');
    writeFileSync(
      join(checkout, 'node_modules/typescript/bin/tsc'),
      "require('node:fs').appendFileSync('calls', 'tsc\\n');",
    );
    expect((await bootstrap('build')).exitCode).toBe(0);
    expect(calls()).toEqual(['npm', 'tsc', 'cli', 'bundle', 'tsc']);
  });

  it('start names git as missing, and the start that needs no git', async () => {
    put('examples/calculator/fix.yaml', '');
    put('bin/voidbox.js', '');
    const { exitCode, stderr } = await bootstrap('start');
    expect(exitCode).toBe(3);
    expect(stderr).toContain(
      'the program `git` is not on the PATH: install it (Debian: apt install git), or start without a repository: npm start examples/hello.yaml',
    );
  });

  it('names its verbs when it is given another', async () => {
    const result = await bootstrap('fly');
    expect(result.exitCode).toBe(2);
    expect(result.stderr).toContain('unknown verb "fly"; one of: start, test, check, build, kernel, dev-lock, bench');
  });
});

describe('before npm downloads anything', () => {
  it('set-up names everything that is missing in one message', async () => {
    for (const name of ['npm', 'flock']) rmSync(join(checkout, 'bin', name));
    const { exitCode, stderr } = await bootstrap('build');
    expect(exitCode).toBe(3);
    expect(stderr).toContain(
      'set-up found 2 problems and has downloaded nothing\n- There is no npm on PATH.\n  fix: Install npm',
    );
    expect(stderr).toContain('\n- There is no flock on PATH.\n  fix: Install util-linux.\n');
    expect(existsSync(join(checkout, 'node_modules'))).toBe(false);
  });

  const machine: Machine = {
    node: '22.12.0',
    platform: 'linux',
    architecture: 'x64',
    path: '/usr/bin',
    availableBytes: () => CHECKOUT_ROOM_MIB * 1_048_576,
  };
  const problemsOf = (other: Partial<Machine>): string[] =>
    checkoutProblems(checkout, { ...machine, path: join(checkout, 'bin'), ...other }).map(({ what }) => what);

  it.each([
    ['an old Node', { node: '20.18.3' }, 'This is Node 20.18.3, and Voidbox needs 20.19 or newer'],
    ['a Node that is neither', { node: '21.7.0' }, 'This is Node 21.7.0'],
    ['another processor', { architecture: 'arm64' }, 'this machine is linux on arm64.'],
    ['too little room', { availableBytes: () => 699 * 1_048_576 }, 'take up to 700 MiB, and the disk of'],
  ])('%s is named', (_what, other, words) => {
    expect(problemsOf({})).toEqual([]);
    expect(problemsOf(other)).toEqual([expect.stringContaining(words)]);
  });

  it('Node is fit as package.json says', () => {
    const { engines } = JSON.parse(readFileSync(join(HERE, '..', 'package.json'), 'utf8')) as {
      engines: { node: string };
    };
    expect(engines.node).toBe('>=20.19 <21 || >=22.12');
    const fit = ['20.19.0', '22.12.0', '24.0.0'].map((node) => problemsOf({ node }));
    expect(fit).toEqual([[], [], []]);
    const unfit = ['18.20.0', '20.18.9', '21.9.0', '22.11.9'].map((node) => problemsOf({ node }).length);
    expect(unfit).toEqual([1, 1, 1, 1]);
  });

  it('a checkout that cannot be written is named', () => {
    expect(checkoutProblems('/proc', { ...machine }).map(({ what }) => what)).toContainEqual(
      expect.stringContaining('The checkout /proc cannot be written: '),
    );
  });
});

const NO_RECORD = '# VMM\n<!-- the last run of npm run test:kvm -->\n<!-- end of the last run -->\n';

describe('npm test and npm run check', () => {
  /** Installs a formatter, linter, cargo and vitest that record their calls, and fail if a file `fail-NAME` exists. */
  async function withTools(): Promise<void> {
    await bootstrap('build');
    const script = (name: string): string => `#!/bin/sh\necho "${name} $1 $2" >> calls\n[ ! -e "fail-${name}" ]\n`;
    put('node_modules/.bin/oxfmt', script('oxfmt'), 0o755);
    put('node_modules/.bin/oxlint', script('oxlint'), 0o755);
    put('bin/cargo', script('cargo'), 0o755);
    put(
      'node_modules/vitest/vitest.mjs',
      `import { appendFileSync, existsSync } from 'node:fs';
      const args = process.argv.slice(2);
      appendFileSync('calls', \`vitest \${args.filter((arg) => !/^--(?:reporter|experimental)/.test(arg)).join(' ')}\\n\`);
      const { default: TestReport } = await import(args.find((arg) => arg.endsWith('test-report.mjs')).slice('--reporter='.length));
      const project = args[1].slice('--project='.length);
      const isFailed = existsSync('fail-' + project);
      const tests = isFailed ? [{ fullName: 'a suite > a test' }] : [];
      const module = (name, duration) => ({
        moduleId: \`\${process.cwd()}/\${project}/\${name}.test.ts\`,
        diagnostic: () => ({ collectDuration: 1, setupDuration: 1, duration }),
        errors: () => (isFailed && name === 'slow' ? [new Error('no such import')] : []),
        children: { allSuites: () => [], allTests: () => (name === 'fast' ? tests : []) },
      });
      new TestReport().onTestRunEnd([module('fast', 10), module('slow', 3_000)]);
      if (existsSync('change-sources')) appendFileSync('native/vmm/src/main.rs', '// changed');
      if (project === 'kvm')
        appendFileSync(\`\${process.env.VOIDBOX_TEST_SHARED_FOLDER}/kvm-runs.jsonl\`, '{"place":"the lab","passed":9,"retries":0}');
      process.exitCode = isFailed ? 1 : 0;`,
    );
    rmSync(join(checkout, 'calls'));
  }

  /** Tests of processes and of Rust start in parallel; this puts tests of processes first. */
  const inOrder = (called: readonly string[]): readonly string[] => {
    const [rust, process] = ['cargo test', 'vitest run --project=process --project=process-own'].map((start) =>
      called.findIndex((call) => call.startsWith(start)),
    ) as [number, number];
    return rust > process ? called : called.with(rust, called[process]!).with(process, called[rust]!);
  };

  it('look at format, lint and clippy before any test', async () => {
    await withTools();
    expect(await bootstrap('test')).toMatchObject({ exitCode: 0 });
    const called = calls();
    expect(called.slice(0, 4).toSorted()).toEqual([
      'cargo clippy --workspace',
      'cargo fmt --all',
      'oxfmt --check ',
      'oxlint --type-aware --deny-warnings',
    ]);
    expect(inOrder(called.slice(4))).toEqual([
      'vitest run --project=pure --project=isolated',
      'vitest run --project=process --project=process-own',
      'cargo test --workspace',
      'vitest run --project=server --project=server-own',
      'vitest run --project=vm --project=vm-own --project=vm-alone',
    ]);
  });

  it('check Rust while npm installs', async () => {
    await withTools();
    rmSync(join(checkout, 'node_modules/.package-lock.json'));
    const passing = `cp package-lock.json node_modules/.package-lock.json`;
    put('bin/npm', `#!/bin/sh\nuntil [ "$(cat calls)" = "cargo fmt --all" ]; do sleep 0.05; done\n${passing}\n`, 0o755);
    const formats = `#!/bin/sh\necho "cargo $1 $2" >> calls\nwhile [ ! -e node_modules/.package-lock.json ]; do sleep 0.05; done\n`;
    put('bin/cargo', formats, 0o755);
    expect(await bootstrap('test', 'static')).toMatchObject({ exitCode: 0 });
    expect(calls().filter((call) => call.startsWith('cargo'))).toEqual(['cargo fmt --all', 'cargo clippy --workspace']);
  });

  it('end the checks of Rust if the installation fails', async () => {
    await withTools();
    rmSync(join(checkout, 'node_modules/.package-lock.json'));
    put('bin/npm', '#!/bin/sh\nuntil [ -e cargo-runs ]; do sleep 0.05; done\nexit 1\n', 0o755);
    put('bin/cargo', '#!/bin/sh\necho > cargo-runs\nexec sleep 100\n', 0o755);
    expect(await bootstrap('test', 'static')).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('npm ci') });
  });

  it('say at the end what each group and the slowest files took, also when one failed', async () => {
    await withTools();
    const passed = await bootstrap('test', 'process', 'rust');
    const line = (name: string): RegExp => new RegExp(`\\] +\\d+\\.\\d s {2}${name}\n`);
    for (const name of ['process', 'rust', 'total', 'process/slow.test.ts', 'process/fast.test.ts'])
      expect(passed.stderr).toMatch(line(name));
    expect(passed.stderr).toContain('the 2 slowest of 2 files:');
    expect(passed.stderr.indexOf('slow.test')).toBeLessThan(passed.stderr.indexOf('fast.test'));
    put('fail-cargo', '');
    const failed = await bootstrap('test', 'process', 'rust', 'server');
    expect(failed.stderr).toMatch(line('rust \\(failed\\)'));
    expect(failed.stderr).toMatch(line('server'));
    expect(failed.exitCode).toBe(1);
  });

  it('run every group after a failed one, and name all failures at the end', async () => {
    await withTools();
    for (const name of ['oxlint', 'process', 'server']) put(`fail-${name}`, '');
    put(
      'bin/cargo',
      `#!/bin/sh\necho "cargo $1" >> calls\n[ "$1" != test ] || { printf 'failures:\\n    door::refuses\\n'; exit 101; }\n`,
      0o755,
    );
    const { exitCode, stderr } = await bootstrap('test');
    expect(exitCode).toBe(1);
    expect(inOrder(calls().slice(4))).toEqual([
      'vitest run --project=pure --project=isolated',
      'vitest run --project=process --project=process-own',
      'cargo test',
      'vitest run --project=server --project=server-own',
      'vitest run --project=vm --project=vm-own --project=vm-alone',
    ]);
    const atEnd = stderr.slice(stderr.indexOf('time by group:')).replaceAll(/^\[.*?\] /gm, '');
    expect(atEnd.split('\n').slice(-8)).toEqual([
      '  failed  static: lint and boundaries',
      '  failed  process: process/fast.test.ts > a suite > a test',
      '  failed  process: process/slow.test.ts (the file itself)',
      '  failed  rust: door::refuses',
      '  failed  server: server/fast.test.ts > a suite > a test',
      '  failed  server: server/slow.test.ts (the file itself)',
      'tests failed: static, process, rust, server',
      '',
    ]);
  });

  it('a passing run on KVM is recorded, until its sources change', async () => {
    await withTools();
    const page = (): string => readFileSync(join(checkout, 'docs/reference/vmm.md'), 'utf8');
    put('native/vmm/src/main.rs', 'fn main() {}');
    put('docs/reference/vmm.md', NO_RECORD);
    const NO = /warning: docs\/reference\/vmm\.md has no record of a run of `npm run test:kvm`\. Run /;
    const OLD = /these sources have changed since the last passing run of `npm run test:kvm` on \d{4}-/;
    expect((await bootstrap('test', 'vm')).stderr).toMatch(NO);
    for (const [prevented, environment] of [
      ['fail-kvm', {}],
      ['change-sources', {}],
      ['nothing', { VOIDBOX_TEST_ROWS: 'vmm' }],
    ] as const) {
      put(prevented, '');
      await bootstrapWith(environment, 'test', 'kvm');
      expect(page()).toBe(NO_RECORD);
      rmSync(join(checkout, prevented));
    }
    expect(await bootstrap('test', 'kvm')).toMatchObject({ exitCode: 0, stderr: expect.stringContaining('commit it') });
    expect(page()).toMatch(
      /^\| \d{4}-\d\d-\d\d \| `[0-9a-f]{64}` \| the lab \| all 9 rows passed in 0\.\d minutes, without a retry \|$/m,
    );
    expect((await bootstrap('test', 'vm')).stderr).not.toContain('test:kvm');
    expect((await bootstrap('check', 'release')).exitCode).toBe(0);
    put('native/vmm/src/main.rs', 'fn main() { todo!() }');
    expect(await bootstrap('test', 'vm')).toMatchObject({ exitCode: 0, stderr: expect.stringMatching(OLD) });
    expect(await bootstrap('check', 'release')).toMatchObject({ exitCode: 1, stderr: expect.stringMatching(OLD) });
  });

  it.each(['oxfmt', 'oxlint', 'cargo'])('npm test and npm run check end with 1 if %s fails', async (name) => {
    await withTools();
    put(`fail-${name}`, '');
    const tested = await bootstrap('test');
    expect(tested.exitCode).toBe(1);
    expect(tested.stderr).toContain('tests failed: static');
    const checked = await bootstrap('check');
    expect(checked.exitCode).toBe(1);
    expect(checked.stderr).toContain('check failed: static');
  });

  it('compile tests and benchmarks too, so that a type error in them fails', async () => {
    await withTools();
    put('test/c.ts', 'export {};');
    writeFileSync(join(checkout, 'node_modules/typescript/bin/tsc'), 'process.exit(1);');
    expect(await bootstrap('test')).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('compiling failed') });
    expect(calls().filter((call) => !call.startsWith('cargo'))).toEqual([]);
  });

  it('npm test runs the groups that are named, and hands on what is left', async () => {
    await withTools();
    expect(await bootstrap('test', 'pure', 'store/')).toMatchObject({ exitCode: 0 });
    expect(calls()).toEqual(['vitest run --project=pure --project=isolated store/']);
  });
});
