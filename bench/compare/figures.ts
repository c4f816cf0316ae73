/** The figures in which two builds are compared: stages in a row and side by side, an item, a boot, output, the command line, `npm start`. */
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { Client, Connection } from '@temporalio/client';
import type { Environment } from '../../setup/environment.ts';
import { measureProcess } from '../cli.ts';
import { itemsArm, itemsSpec } from '../items.ts';
import { type Arm, type ArmResult, interleave } from '../measure.ts';
import { type BenchServer, startNode, startServer, TUNED_FLAGS } from '../servers.ts';
import { IN_A_ROW, noopSpec, type RunLengths, stageArm, wideSpec, WIDE } from '../stages.ts';
import type { Build } from './build.ts';
import { type Compared, compareMeasure } from './judge.ts';

const run = promisify(execFile);

/** Fewer than in the figure of the page, because both builds run them in each round. */
const ITEMS = 2_000;
const BOOT_SPEC = vmSpec('boot', 'true');
/** Each line is a write of its own: that costs the guest, the keeper and the worker most for its bytes. */
const LINES = 30_000;
const LINES_SPEC = vmSpec('lines', `i=0; while [ $i -lt ${LINES} ]; do echo line $i; i=$((i+1)); done`);

export interface Comparison {
  readonly env: Environment;
  readonly workDir: string;
  readonly rounds: number;
  readonly say: (line: string) => void;
}

export type Pair<T> = readonly [T, T];

/** A build with a server and a worker of its own: both builds listen on queues of the same name. */
interface Running extends AsyncDisposable {
  readonly build: Build;
  readonly server: BenchServer;
  readonly workerPid: number;
}

async function startBuild({ env, workDir }: Comparison, build: Build): Promise<Running> {
  const resolvePath = (name: string): string => join(workDir, `${build.name}-${name}`);
  const server = await startServer(build.pieces.temporalCli, resolvePath('server.db'), TUNED_FLAGS);
  try {
    const files = ['--state-dir', resolvePath('state'), '--pieces', JSON.stringify(build.pieces)];
    const worker = await startNode(
      [...(await workerArgsOf(build)), '--address', server.address, '--embedded', ...files],
      env.variables,
      /voidbox-worker ready/,
    );
    return {
      build,
      server,
      workerPid: worker.pid,
      async [Symbol.asyncDispose]() {
        await worker[Symbol.asyncDispose]();
        await server[Symbol.asyncDispose]();
      },
    };
  } catch (error) {
    await server[Symbol.asyncDispose]();
    throw error;
  }
}

/** As the build itself starts its worker. */
async function workerArgsOf({ root }: Build): Promise<readonly string[]> {
  const module = join(root, 'dist', 'setup', 'worker-command.js');
  // Earlier builds give Node no arguments of their own.
  if (!existsSync(module)) return [join(root, 'dist', 'workers', 'main.js')];
  const { workerArgs } = (await import(pathToFileURL(module).href)) as { workerArgs: () => readonly string[] };
  return workerArgs();
}

/** Each figure by the name that `--only` accepts, in the order in which they are taken. */
const FIGURES = {
  row: (comparison, pair) => compareStages(comparison, pair, 'a stage in a row', IN_A_ROW, noopSpec),
  wide: (comparison, pair) => compareStages(comparison, pair, 'a stage side by side', WIDE, wideSpec),
  items: compareItems,
  boot: (comparison, pair) => compareVmRuns(comparison, pair, 'a run of one stage in a VM', BOOT_SPEC),
  lines: (comparison, pair) => compareVmRuns(comparison, pair, `a run that prints ${LINES} lines in a VM`, LINES_SPEC),
  starts: compareStarts,
  start: compareNpmStart,
} satisfies Readonly<Record<string, TakeFigure>>;

type TakeFigure = (comparison: Comparison, pair: Pair<Running>) => Promise<readonly Compared[]>;
export type FigureName = keyof typeof FIGURES;
export const FIGURE_NAMES = Object.keys(FIGURES) as readonly FigureName[];

/** Takes the named figures of both builds. */
export async function compareBuilds(
  comparison: Comparison,
  [base, current]: Pair<Build>,
  names: readonly FigureName[],
): Promise<readonly Compared[]> {
  await using first = await startBuild(comparison, base);
  await using second = await startBuild(comparison, current);
  const compared: Compared[] = [];
  for (const name of names) compared.push(...(await FIGURES[name](comparison, [first, second])));
  return compared;
}

async function measure<T extends string>(
  { rounds, say }: Comparison,
  figure: string,
  pair: Pair<Running>,
  makeArm: (running: Running) => Promise<Arm<T>>,
): Promise<Pair<ArmResult<T>>> {
  say(figure);
  const arms = [await makeArm(pair[0]), await makeArm(pair[1])];
  const [base, current] = await interleave(arms, rounds, say);
  return [base!, current!];
}

async function compareStages(
  comparison: Comparison,
  pair: Pair<Running>,
  figure: string,
  lengths: RunLengths,
  spec: (stages: number) => string,
): Promise<readonly Compared[]> {
  const results = await measure(comparison, figure, pair, ({ build, server, workerPid }) =>
    stageArm({
      name: build.name,
      address: server.address,
      workerPid,
      taskQueue: 'voidbox',
      workflowType: 'voidboxRun',
      lengths,
      argsFor: (stages) => [{ spec: spec(stages) }],
    }),
  );
  return [
    compareMeasure(`${figure}: latency`, 'ms', results, 'msPerStage'),
    compareMeasure(`${figure}: worker CPU`, 'ms', results, 'workerCpuMsPerStage'),
    compareMeasure(`${figure}: history`, 'bytes', results, 'bytesPerStage'),
  ];
}

async function compareItems(comparison: Comparison, pair: Pair<Running>): Promise<readonly Compared[]> {
  const figure = 'an item of a list';
  const results = await measure(comparison, figure, pair, ({ build, server, workerPid }) =>
    itemsArm({
      name: build.name,
      address: server.address,
      workerPid,
      serverPid: server.pid,
      taskQueue: 'voidbox',
      workflowType: 'voidboxRun',
      items: ITEMS,
      argsFor: (items) => [{ spec: itemsSpec(items) }],
      check: requireSuccess,
    }),
  );
  return [
    compareMeasure(`${figure}: whole run`, 's', results, 'wallSeconds'),
    compareMeasure(`${figure}: worker CPU`, 'ms', results, 'workerCpuMsPerItem'),
  ];
}

function vmSpec(name: string, script: string): string {
  return `api_version: v1\nkind: workflow\nname: ${name}\nworkflow:\n  steps:\n    - name: only\n      run: { program: sh, args: [-c, "${script}"] }\n`;
}

async function compareVmRuns(
  comparison: Comparison,
  pair: Pair<Running>,
  figure: string,
  spec: string,
): Promise<readonly Compared[]> {
  const results = await measure(comparison, figure, pair, async ({ build, server }) => {
    const client = new Client({ connection: await Connection.connect({ address: server.address }) });
    return {
      name: build.name,
      async round() {
        const began = performance.now();
        const options = { taskQueue: 'voidbox', workflowId: `vm-${randomUUID()}`, args: [{ spec }] };
        requireSuccess(await client.workflow.execute('voidboxRun', options));
        return { ms: performance.now() - began };
      },
    };
  });
  return [compareMeasure(`${figure}: latency`, 'ms', results, 'ms')];
}

async function compareStarts(comparison: Comparison, pair: Pair<Running>): Promise<readonly Compared[]> {
  const figure = 'voidbox --help';
  const results = await measure(comparison, figure, pair, async ({ build: { name, root } }) => ({
    name,
    round: () => measureProcess([process.execPath, join(root, 'bin', 'voidbox.js'), '--help']),
  }));
  return [compareMeasure(`${figure}: CPU`, 'ms', results, 'cpuMs')];
}

/** From the command to the prompt, with a stack that is not running: what a newcomer waits for once all is set up. */
async function compareNpmStart(comparison: Comparison, pair: Pair<Running>): Promise<readonly Compared[]> {
  const figure = 'npm start';
  const { env, workDir } = comparison;
  const results = await measure(comparison, figure, pair, async ({ build: { name, root } }) => {
    const variables = { ...env.variables, VOIDBOX_STATE_DIR: join(workDir, `${name}-start`), TMPDIR: workDir };
    const runNode = (...args: readonly string[]): Promise<unknown> =>
      run(process.execPath, args, { cwd: root, env: variables, maxBuffer: 16 * 1024 * 1024 });
    return {
      name,
      async round() {
        const began = performance.now();
        await runNode(join(root, 'setup', 'bootstrap.mjs'), 'start');
        const seconds = (performance.now() - began) / 1_000;
        await runNode(join(root, 'bin', 'voidbox.js'), 'down');
        return { seconds };
      },
    };
  });
  return [compareMeasure(`${figure}: whole`, 's', results, 'seconds')];
}

function requireSuccess(result: unknown): void {
  if ((result as { state?: unknown } | null)?.state !== 'succeeded')
    throw new Error(`a run did not succeed: ${JSON.stringify(result)}`);
}
