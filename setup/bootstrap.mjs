/**
 * Runs `npm start`, `npm test` and the other scripts. It first prepares the checkout for the verb (dependencies, compiled
 * TypeScript, workflow bundle), then runs the verb. It is plain JavaScript without dependencies, because it runs before
 * anything is installed. It detects finished steps by hashes and file times.
 */
import { spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  renameSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { checkoutProblems, describeProblems, platformProblems, thisMachine } from './checkout-needs.mjs';
import { withFileLock } from './file-lock.mjs';
import {
  describeOldRecord,
  hashKvmSources,
  KVM_ROWS,
  KVM_RUN_FILE,
  RECORD_PAGE,
  sumKvmRuns,
  writeKvmRecord,
} from './kvm-record.mjs';
import { enterTestFolder, withoutTestFolder } from './test-folder.mjs';
import { describeFailures, parseCargoFailures, REPORT_FILE, runAll, SHARED_FOLDER } from './test-report.mjs';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
/** Folders of the product itself; tests and benchmarks are compiled only for `check` and `bench`. */
const PRODUCT = [
  'domain',
  'agents',
  'activities',
  'workflows',
  'store',
  'native',
  'guest/image',
  'tar',
  'files',
  'http',
  'git',
  'sandbox',
  'sandbox-api',
  'client-api',
  'setup',
  'client',
  'conditions',
  'workers',
  'app',
  'server',
  'cli',
  'sdk',
  'skill-kit',
];
/** The folders in the workflow bundle. */
const BUNDLED = ['domain', 'activities', 'workflows', 'conditions', 'workers'];
const PROGRAM_BUNDLES = [
  join(ROOT, 'dist', 'cli-bundle', 'main.cjs'),
  join(ROOT, 'dist', 'worker-bundle', 'serve-worker.cjs'),
  join(ROOT, 'dist', 'api-bundle', 'service.cjs'),
  join(ROOT, 'dist', 'stack-bundle', 'supervise.cjs'),
  join(ROOT, 'dist', 'door-bundle', 'skill-door.cjs'),
];
const GENERATED = new Set(['node_modules', 'dist', 'target', '.git']);
const BUILD_RECORD = join(ROOT, 'dist', '.build.json');
/** The groups, beginning with the one that fails soonest. vitest runs all of them except `static` and `rust`. */
const TEST_GROUPS = ['static', 'pure', 'process', 'rust', 'server', 'vm'];
/** The projects of vitest.config.ts in a group; every other group is one project of the same name. */
const PROJECTS = /** @type {Record<string, string[]>} */ ({
  pure: ['pure', 'isolated'],
  process: ['process', 'process-own'],
  server: ['server', 'server-own'],
  vm: ['vm', 'vm-own', 'vm-alone'],
});
/** Groups that run only when they are named: one downloads programs that a user may not want, the others take minutes. */
const NAMED_GROUPS = ['agents', 'clock', 'kvm'];
/** Groups that need compiled tests, benchmarks and examples: `static` checks their types, the others start examples. */
const NEEDS_ALL = new Set(['static', 'vm', 'agents', 'kvm']);
/** The groups of `npm run check`, which need neither a server nor a VM. */
const CHECK_GROUPS = ['static', 'pure', 'process', 'rust'];
/** Two groups that run in parallel: tests of Rust wait half of their time, and tests of processes use the CPU. */
const PAIR = ['process', 'rust'];
/** A folder with a failing test and `fix.yaml`, whose agent fixes it. */
const START_EXAMPLE = 'examples/calculator';

const startedAtMs = Date.now();
const noColor = Boolean(process.env.NO_COLOR) || process.env.TERM === 'dumb' || !process.stderr.isTTY;

/** @param {string} line */
function progress(line) {
  const elapsed = `[${((Date.now() - startedAtMs) / 1000).toFixed(1).padStart(6)} s]`;
  process.stderr.write(`${noColor ? elapsed : `\u001b[2m${elapsed}\u001b[22m`} ${line}\n`);
}

/** Ends the process with a message instead of a stack trace. */
class BootstrapError extends Error {
  /** @param {string} message @param {number} exitCode */
  constructor(message, exitCode) {
    super(message);
    this.exitCode = exitCode;
  }
}

const ignore = () => undefined;
/** The time for the last output of a child that has ended. */
const LEFT_OUTPUT_MS = 2_000;

/** @type {Record<string, string | undefined>} */
const REMEDY = {
  git: ': install it (Debian: apt install git), or start without a repository: npm start examples/hello.yaml',
};

/**
 * Runs a child with this process's terminal, and returns its exit code; a signal is 128 plus its usual number.
 * @param {string} program @param {string[]} args @param {NodeJS.ProcessEnv} [env]
 * @param {(chunk: Buffer) => void} [read] gets standard output and standard error too, which are then pipes
 * @param {boolean} [isShown] if false, only `read` gets the output
 * @param {AbortSignal} [signal] ends the child
 * @returns {Promise<number>}
 */
function run(program, args, env = process.env, read, isShown = true, signal) {
  return new Promise((resolve, reject) => {
    const output = read === undefined ? 'inherit' : 'pipe';
    const child = spawn(program, args, { cwd: ROOT, stdio: ['inherit', output, output], env, signal });
    child.stdout?.on('data', read ?? ignore);
    child.stderr?.on('data', read ?? ignore);
    if (isShown) {
      child.stdout?.pipe(process.stdout, { end: false });
      child.stderr?.pipe(process.stderr, { end: false });
    }
    // The terminal sends an interrupt to the whole foreground group: the child decides what it means, and this process
    // waits for it.
    process.on('SIGINT', ignore);
    const end = () => child.kill('SIGTERM');
    process.once('SIGTERM', end);
    child.once('error', (error) =>
      reject(
        'code' in error && error.code === 'ENOENT'
          ? new BootstrapError(`the program \`${program}\` is not on the PATH${REMEDY[program] ?? ': install it'}`, 3)
          : new BootstrapError(`cannot run ${program}: ${error.message}`, 3),
      ),
    );
    child.once('exit', (code, signal) => {
      process.off('SIGINT', ignore);
      process.off('SIGTERM', end);
      const settle = () => resolve(code ?? (signal === 'SIGINT' ? 130 : 143));
      if (read === undefined) return settle();
      // A process that the child started may still hold the pipes open.
      const limit = setTimeout(settle, LEFT_OUTPUT_MS);
      child.once('close', () => {
        clearTimeout(limit);
        settle();
      });
    });
  });
}

/** @param {string} what @param {string} program @param {string[]} args @param {NodeJS.ProcessEnv} [env] */
async function runOrFail(what, program, args, env) {
  const code = await run(program, args, env);
  if (code !== 0) throw new BootstrapError(`${what} failed (exit code ${code})`, code === 130 ? 130 : 1);
}

/** @param {string} file @param {string} text */
function writeAtomically(file, text) {
  mkdirSync(dirname(file), { recursive: true });
  const temporary = `${file}.${process.pid}.tmp`;
  writeFileSync(temporary, text);
  renameSync(temporary, file);
}

/** @param {string} folder @param {string[]} found */
function collectSources(folder, found) {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (entry.isDirectory()) {
      if (!GENERATED.has(entry.name)) collectSources(join(folder, entry.name), found);
    } else if (/(?:\.ts|\.[cm]js|tsconfig\.json)$/.test(entry.name)) {
      found.push(join(folder, entry.name));
    }
  }
}

/**
 * Lists path, size and time of every source of the folders, so the signature changes whenever a compiler has work to
 * do.
 * @param {readonly string[]} folders
 */
function signatureOf(folders) {
  /** @type {string[]} */
  const files = [join(ROOT, 'tsconfig.json'), join(ROOT, 'tsconfig.base.json'), join(ROOT, 'package-lock.json')];
  for (const folder of folders) if (existsSync(join(ROOT, folder))) collectSources(join(ROOT, folder), files);
  const hash = createHash('sha256');
  for (const file of files.sort()) {
    const stat = statSync(file, { bigint: true });
    hash.update(`${relative(ROOT, file)}\0${stat.size}\0${stat.mtimeNs}\n`);
  }
  return hash.digest('hex');
}

/** @returns {Record<string, string>} */
function readBuildRecord() {
  try {
    return JSON.parse(readFileSync(BUILD_RECORD, 'utf8'));
  } catch {
    return {};
  }
}

/** @param {string} key @param {string} value */
function record(key, value) {
  writeAtomically(BUILD_RECORD, `${JSON.stringify({ ...readBuildRecord(), [key]: value })}\n`);
}

/**
 * Returns true if node_modules contains the packages in package-lock.json, according to npm's own list there. Optional
 * packages include those of other platforms, so they may be absent.
 */
function isInstalled() {
  try {
    const wanted = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')).packages;
    const installed = JSON.parse(readFileSync(join(ROOT, 'node_modules', '.package-lock.json'), 'utf8')).packages;
    return Object.entries(wanted).every(
      ([path, entry]) =>
        path === '' ||
        (installed[path] === undefined ? entry.optional === true : installed[path].integrity === entry.integrity),
    );
  } catch {
    return false;
  }
}

/** Returns the steps that must run before the verb; usually none. @param {boolean} everything */
function pending(everything) {
  const done = readBuildRecord();
  const install = !isInstalled();
  const product = signatureOf(PRODUCT);
  const all = everything ? signatureOf([...PRODUCT, 'bench', 'test']) : null;
  const bundle = signatureOf(BUNDLED);
  return {
    install,
    product: install || done.product !== product || PROGRAM_BUNDLES.some((file) => !existsSync(file)) ? product : null,
    all: all !== null && (install || done.all !== all) ? all : null,
    bundle: install || done.bundle !== bundle ? bundle : null,
  };
}

/** @param {ReturnType<typeof pending>} todo */
function isNothing(todo) {
  return !todo.install && todo.product === null && todo.all === null && todo.bundle === null;
}

async function install() {
  progress('installing npm dependencies (npm ci)');
  await runOrFail('npm ci', 'npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error']);
}

/** @param {readonly string[]} projects */
async function compile(projects) {
  progress('compiling TypeScript');
  await runOrFail('compiling', process.execPath, [
    join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc'),
    '-b',
    ...projects,
  ]);
}

async function bundlePrograms() {
  await runOrFail('bundling the command line, the worker, the API and the supervisor', process.execPath, [
    join(ROOT, 'setup', 'bundle-programs.mjs'),
  ]);
}

async function bundle() {
  progress('building the workflow bundle');
  await runOrFail('building the workflow bundle', process.execPath, [join(ROOT, 'dist', 'workers', 'build-bundle.js')]);
}

/**
 * Prepares dependencies, compiled code and the workflow bundle, each only if its inputs have changed. Two concurrent
 * calls are safe: the second waits, checks again and finds no work.
 * @param {boolean} everything also compile tests and benchmarks
 */
export async function prepareCheckout(everything = false) {
  const before = pending(everything);
  if (isNothing(before)) return;
  const machine = thisMachine(process.env.PATH ?? '');
  const problems = before.install ? checkoutProblems(ROOT, machine) : platformProblems(machine);
  if (problems.length > 0) throw new BootstrapError(describeProblems(problems), 3);
  // The umask sets this folder's mode: `withFileLock` would make it for one user, but all users of the machine may run
  // the checkout.
  mkdirSync(join(ROOT, 'dist'), { recursive: true });
  await withFileLock(
    join(ROOT, 'dist', '.build.lock'),
    async () => {
      const todo = pending(everything);
      if (todo.install) await install();
      if (todo.product !== null) {
        await compile(PRODUCT);
        await bundlePrograms();
        record('product', todo.product);
      }
      if (todo.bundle !== null) {
        await bundle();
        record('bundle', todo.bundle);
      }
      if (todo.all !== null) {
        await compile([]);
        record('all', todo.all);
      }
    },
    () => progress('waiting for another build of this checkout'),
  );
}

/** @param {string} name */
function tool(name) {
  return join(ROOT, 'node_modules', '.bin', name);
}

/** @param {string[]} args an example of one file, instead of the agent and its patch */
async function start(args) {
  const [example] = args;
  if (example === undefined) return startAgent();
  progress(`running ${example}`);
  return runVoidbox('run', join(ROOT, example));
}

/** @param {string[]} args */
function runVoidbox(...args) {
  return run(process.execPath, [join(ROOT, 'bin', 'voidbox.js'), ...args]);
}

/** Shows the whole way: an agent changes a copy of a repository, and its patch is there to be read and applied. */
async function startAgent() {
  const repository = await makeRepository();
  progress(`an agent fixes the failing test of ${repository}`);
  const runId = `fix-${new Date()
    .toISOString()
    .replace(/[-:]|\..*/g, '')
    .replace('T', '-')}-${randomBytes(2).toString('hex')}`;
  const code = await runVoidbox('run', join(repository, 'fix.yaml'), '--mock-agents', '--run-id', runId);
  if (code !== 0) return code;
  process.stdout.write('\n\nThe agent worked on a copy in its VM. This is its patch:\n\n');
  const printed = await runVoidbox('apply', runId, '--patch');
  if (printed !== 0) return printed;
  process.stdout.write(
    [
      '',
      'Apply it, and see the test pass:',
      `  npx voidbox apply ${runId}`,
      `  (cd ${repository} && sh ./test.sh)`,
      '',
    ].join('\n'),
  );
  return 0;
}

/** A copy of the example as a repository, because a checkout holds no repository of its own. */
async function makeRepository() {
  const repository = join(mkdtempSync(join(tmpdir(), 'voidbox-start-')), 'calculator');
  cpSync(join(ROOT, START_EXAMPLE), repository, { recursive: true });
  // A template, a hook or a signature of the user may fail, and the example does not need them.
  const settings = [
    'user.name=Voidbox',
    'user.email=voidbox@localhost',
    'core.hooksPath=/dev/null',
    'commit.gpgSign=false',
  ];
  const git = ['-C', repository, ...settings.flatMap((setting) => ['-c', setting])];
  for (const args of [
    ['init', '--quiet', '--template='],
    ['add', '.'],
    ['commit', '--quiet', '-m', 'A calculator'],
  ])
    await runOrFail(`git ${args[0]}`, 'git', [...git, ...args]);
  return repository;
}

/** Returns the files of crates that are no members of the workspace: cargo formats only its members. The package has neither. */
function listRustBesideWorkspace() {
  return ['bench/vmm/machine/src', 'native/vmm/fuzz/targets']
    .filter((folder) => existsSync(join(ROOT, folder)))
    .flatMap((folder) =>
      readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
        .filter((name) => name.endsWith('.rs'))
        .map((name) => join(folder, name)),
    );
}

/** @typedef {[step: string, program: string, args: string[]]} Step */
/** @typedef {() => Promise<number[]>} EndRustSteps prints the output of the checks of Rust and returns their exit codes */

/** Checks of Rust that do not run the code. @type {Step[]} */
const RUST_STEPS = [
  ['Rust format', 'cargo', ['fmt', '--all', '--', '--check', ...listRustBesideWorkspace()]],
  ['clippy', 'cargo', ['clippy', '--workspace', '--all-targets', '--locked', '--quiet', '--', '-D', 'warnings']],
];

/**
 * Starts the checks of Rust, which need no step of the preparation. They run beside it, because it waits for the network
 * and the disk.
 * @param {AbortSignal} signal ends them
 * @returns {EndRustSteps}
 */
function beginRustSteps(signal) {
  /** @type {Buffer[]} */
  const output = [];
  const keep = (/** @type {Buffer} */ chunk) => void output.push(chunk);
  const color = { ...process.env, CARGO_TERM_COLOR: noColor ? 'never' : 'always' };
  const runAllSteps = async () => {
    const codes = [];
    for (const [, program, args] of RUST_STEPS) codes.push(await run(program, args, color, keep, false, signal));
    return codes;
  };
  const ended = runAllSteps();
  // It is awaited later, and a failed preparation never awaits it.
  ended.catch(ignore);
  return () => ended.finally(() => process.stderr.write(Buffer.concat(output)));
}

/**
 * Runs every check that does not run the code, even after a failed one, and names the failed steps. The build has already
 * checked types.
 * @param {EndRustSteps} endRustSteps
 */
async function runStatic(endRustSteps) {
  /** @type {[string, number][]} */
  const codes = [];
  /** @type {Step[]} */
  const steps = [
    ['TypeScript format', tool('oxfmt'), ['--check']],
    ['lint and boundaries', tool('oxlint'), ['--type-aware', '--deny-warnings']],
  ];
  for (const [step, program, args] of steps) {
    progress(`static: ${step}`);
    codes.push([step, await run(program, args)]);
  }
  progress(`static: ${RUST_STEPS.map(([step]) => step).join(', ')}`);
  const ofRust = await endRustSteps();
  RUST_STEPS.forEach(([step], at) => codes.push([step, ofRust[at]]));
  const failed = codes.filter(([, code]) => code !== 0);
  const isInterrupted = failed.some(([, code]) => code === 130);
  return { code: isInterrupted ? 130 : (failed[0]?.[1] ?? 0), failures: failed.map(([step]) => step) };
}

/**
 * Tests every crate, even after a failed one. The output is kept for the names of failures. It is printed as it arrives
 * or, if another group runs in parallel, at the end.
 * @param {boolean} isBeside
 */
async function runRust(isBeside) {
  /** @type {Buffer[]} */
  const output = [];
  const color = noColor ? 'never' : 'always';
  const args = [
    'test',
    '--workspace',
    '--locked',
    '--quiet',
    '--no-fail-fast',
    '--color',
    color,
    '--',
    '--color',
    color,
  ];
  const keep = (/** @type {Buffer} */ chunk) => void output.push(chunk);
  const code = await run('cargo', args, withoutTestFolder(process.env), keep, !isBeside);
  if (isBeside) process.stdout.write(Buffer.concat(output));
  return { code, failures: code === 0 ? [] : parseCargoFailures(Buffer.concat(output).toString()) };
}

/** @param {string} group @param {string[]} rest for vitest @param {string} reportFile where vitest's reporter writes @param {boolean} isBeside another group @param {EndRustSteps} endRustSteps */
async function runGroup(group, rest, reportFile, isBeside, endRustSteps) {
  if (group === 'static') return runStatic(endRustSteps);
  if (group === 'rust') return runRust(isBeside);
  return group === 'kvm' ? runKvm(rest, reportFile) : runVitest(group, rest, reportFile);
}

/** @param {string} group @param {string[]} rest for vitest @param {string} reportFile */
async function runVitest(group, rest, reportFile) {
  const vitest = join(ROOT, 'node_modules', 'vitest', 'vitest.mjs');
  const reporters = ['--reporter=default', `--reporter=${join(ROOT, 'setup', 'test-report.mjs')}`];
  const projects = (PROJECTS[group] ?? [group]).map((project) => `--project=${project}`);
  const shared = dirname(reportFile);
  // One process transforms modules while those of the tests wait. The folder does not outlive the groups, so nothing in it gets out of date.
  const modules = ['--experimental.fsModuleCache', `--experimental.fsModuleCachePath=${join(shared, 'modules')}`];
  const code = await run(process.execPath, [vitest, 'run', ...projects, ...reporters, ...modules, ...rest], {
    ...process.env,
    [REPORT_FILE]: reportFile,
    [SHARED_FOLDER]: shared,
  });
  return { code };
}

/**
 * Runs the group on KVM. If all of it passed and the sources stayed the same, its record gets this run.
 * @param {string[]} rest for vitest @param {string} reportFile
 */
async function runKvm(rest, reportFile) {
  const hash = hashKvmSources(ROOT);
  const began = performance.now();
  const ended = await runVitest('kvm', rest, reportFile);
  const runFile = join(dirname(reportFile), KVM_RUN_FILE);
  if (ended.code !== 0) return ended;
  if (rest.length > 0 || process.env[KVM_ROWS] !== undefined || !existsSync(runFile)) {
    progress(`kvm: ${RECORD_PAGE} stays as it is, because not all rows ran`);
  } else if (hashKvmSources(ROOT) === hash) {
    const date = new Date().toISOString().slice(0, 10);
    const run = sumKvmRuns(readFileSync(runFile, 'utf8'));
    writeKvmRecord(ROOT, { ...run, date, hash, tookMs: performance.now() - began });
    progress(`kvm: ${RECORD_PAGE} has the record of this run; commit it`);
  } else {
    progress(`kvm: ${RECORD_PAGE} stays as it is, because sources changed during the run`);
  }
  return ended;
}

/**
 * Runs all groups, even after a failed one. At the end, prints the times and the name of each failure.
 * @param {string} verb @param {readonly string[]} groups @param {string[]} rest for vitest @param {EndRustSteps} endRustSteps
 * @throws BootstrapError that names the failed groups
 */
async function runGroups(verb, groups, rest, endRustSteps) {
  const isPaired = PAIR.every((group) => groups.includes(group));
  const steps = groups
    .filter((group) => !isPaired || group !== PAIR[1])
    .map((group) => (isPaired && group === PAIR[0] ? PAIR : [group]));
  const begin = (/** @type {string} */ group, /** @type {string} */ reportFile) => {
    progress(`${verb}: ${group} (${groups.indexOf(group) + 1} of ${groups.length})`);
    return runGroup(group, rest, reportFile, isPaired && PAIR.includes(group), endRustSteps);
  };
  const leaveTestFolder = enterTestFolder(process.env, progress);
  // On a terminal, vitest draws its progress again and again in the last lines, so two of them would mix.
  const running = runAll(steps, begin, !process.stdout.isTTY).finally(leaveTestFolder);
  const { times, failed, isInterrupted } = await running;
  const old = groups.includes('vm') ? describeOldRecord(ROOT) : null;
  const warnings = old === null ? [] : [`warning: ${old}`];
  for (const line of [...times, ...warnings, ...describeFailures(failed)]) progress(line);
  if (failed.length === 0) return;
  const names = failed.map(({ group }) => group).join(', ');
  throw new BootstrapError(`${verb} failed: ${names}`, isInterrupted ? 130 : 1);
}

/** @param {string[]} args */
function groupsOf(args) {
  const all = [...TEST_GROUPS, ...NAMED_GROUPS];
  const named = args.filter((argument) => all.includes(argument));
  return {
    groups: named.length === 0 ? TEST_GROUPS : all.filter((group) => named.includes(group)),
    rest: args.filter((argument) => !named.includes(argument)),
  };
}

/** @param {string[]} args names of groups, then anything for vitest @param {EndRustSteps} endRustSteps */
async function test(args, endRustSteps) {
  const { groups, rest } = groupsOf(args);
  await runGroups('tests', groups, rest, endRustSteps);
  return 0;
}

/**
 * Runs every check that needs neither a server nor a VM. With `release`, it also requires the record of a run on KVM.
 * @param {string[]} args @param {EndRustSteps} endRustSteps
 */
async function check(args, endRustSteps) {
  const old = args.includes('release') ? describeOldRecord(ROOT) : null;
  if (old !== null) progress(`check: ${old}`);
  await runGroups('check', CHECK_GROUPS, [], endRustSteps);
  if (old !== null) throw new BootstrapError(`check failed: ${old}`, 1);
  progress('check: all passed');
  return 0;
}

/**
 * @typedef {object} Verb
 * @property {(args: string[]) => boolean} [everything] returns true if tests, benchmarks and examples are compiled too
 * @property {(args: string[]) => boolean} [checksRust] returns true if the checks of Rust start with the preparation
 * @property {(args: string[], endRustSteps: EndRustSteps) => Promise<number>} work
 */

/** @type {Record<string, Verb>} */
const VERBS = {
  start: { work: start },
  test: {
    everything: (args) => groupsOf(args).groups.some((group) => NEEDS_ALL.has(group)),
    checksRust: (args) => groupsOf(args).groups.includes('static'),
    work: test,
  },
  check: { everything: () => true, checksRust: () => true, work: check },
  build: { everything: () => true, work: () => Promise.resolve(0) },
  kernel: {
    work: (args) =>
      run(process.execPath, [join(ROOT, 'dist', 'setup', 'main.js'), String(startedAtMs), 'kernel', ...args]),
  },
  'dev-lock': {
    work: () => run(process.execPath, [join(ROOT, 'dist', 'setup', 'main.js'), String(startedAtMs), 'dev-lock']),
  },
  bench: {
    everything: () => true,
    work: (args) =>
      args[0] === 'vmm'
        ? run(process.execPath, [join(ROOT, 'dist', 'bench', 'vmm', 'main.js'), ...args.slice(1)])
        : run(process.execPath, [join(ROOT, 'dist', 'bench', 'main.js'), ...args]),
  },
  storm: {
    everything: () => true,
    work: (args) => run(process.execPath, [join(ROOT, 'dist', '.storm', 'storm', 'main.js'), ...args]),
  },
  'bench-compare': {
    everything: () => true,
    work: (args) => run(process.execPath, [join(ROOT, 'dist', 'bench', 'compare-main.js'), ...args]),
  },
  record: {
    everything: () => true,
    work: (args) => run(process.execPath, [join(ROOT, 'dist', 'bench', 'record-main.js'), ...args]),
  },
  'bench-service': {
    everything: () => true,
    work: (args) => run(process.execPath, [join(ROOT, 'dist', 'bench', 'service-main.js'), ...args]),
  },
  'bench-triggers': {
    everything: () => true,
    work: (args) => run(process.execPath, [join(ROOT, 'dist', 'bench', 'triggers', 'main.js'), ...args]),
  },
  'bench-steps': {
    everything: () => true,
    work: (args) => run(process.execPath, [join(ROOT, 'dist', 'bench', 'steps-main.js'), ...args]),
  },
};

/** @param {string[]} argv */
async function main(argv) {
  const [name = '', ...args] = argv;
  const verb = VERBS[name];
  if (verb === undefined)
    throw new BootstrapError(`unknown verb "${name}"; one of: ${Object.keys(VERBS).join(', ')}`, 2);
  const stop = new AbortController();
  const endRustSteps = verb.checksRust?.(args) ? beginRustSteps(stop.signal) : () => Promise.resolve([]);
  try {
    await prepareCheckout(verb.everything?.(args) ?? false);
    return await verb.work(args, endRustSteps);
  } finally {
    stop.abort();
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  main(process.argv.slice(2)).then(
    (code) => {
      process.exitCode = code;
    },
    (error) => {
      progress(error instanceof BootstrapError ? error.message : String(error?.stack ?? error));
      process.exitCode = error instanceof BootstrapError ? error.exitCode : 1;
    },
  );
}
