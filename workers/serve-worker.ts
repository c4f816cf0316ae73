/** A worker process by its options and environment: which server, which folders, which pieces. */
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs, type ParseArgsConfig } from 'node:util';
import { NO_LENT_VARIABLES } from '../activities/ports/lent-variables.ts';
import { isCodedError } from '../domain/errors/coded-error.ts';
import { parseWarmShapes, type WarmCount } from '../domain/plan/warm-shape.ts';
import { remedyOf } from '../domain/errors/error-code.ts';
import { durabilityOf, type Environment, readEnvironment } from '../setup/environment.ts';
import type { HostPieces } from '../setup/pieces/host-pieces.ts';
import { resolveStackPieces } from '../setup/resolve.ts';
import { createLentVariables } from './lent-variables.ts';
import { imageDisks, lazyExtras, lazyPieces } from './host/lazy-pieces.ts';
import { loadBinding } from './host/load-binding.ts';
import { createLog, type Log, textOf } from './log.ts';
import { NoServerError } from '../client/temporal/no-server.ts';
import { connectOwnServer } from '../client/temporal/server-problem.ts';
import { SetupError } from '../setup/setup-error.ts';
import {
  readConfiguredAddress,
  createEmbeddedAddress,
  type TemporalAddress,
} from '../client/temporal/temporal-address.ts';
import { stopOnSignals, rejectOnStop } from './stop-signals.ts';
import { runWorkerProcess, type WorkerProcessOptions } from './worker-process.ts';

const SERVER_LIMIT_MS = 60_000;
const SERVER_AGAIN_MS = 1_000;
const USAGE = 'name the server by TEMPORAL_ADDRESS, a temporal.toml profile, or --address HOST:PORT';

const OPTIONS = {
  embedded: { type: 'boolean', default: false },
  address: { type: 'string' },
  namespace: { type: 'string', default: 'default' },
  'state-dir': { type: 'string' },
  keeper: { type: 'string' },
  pieces: { type: 'string' },
  'allow-mounts': { type: 'string', multiple: true, default: [] },
  'allow-git': { type: 'string', multiple: true, default: [] },
  'allow-keep': { type: 'boolean', default: false },
  'allow-exec': { type: 'boolean', default: false },
  warm: { type: 'string', multiple: true, default: [] },
  'allow-services': { type: 'string', multiple: true, default: [] },
  'allow-env': { type: 'string', multiple: true, default: [] },
  'secrets-file': { type: 'string' },
  skills: { type: 'string', multiple: true, default: [] },
  json: { type: 'boolean', default: false },
} as const satisfies ParseArgsConfig['options'];

/** Ends the process when it has worked. */
export async function serveWorker(): Promise<void> {
  const log = createLog('worker');
  const stop = stopOnSignals(log);
  const values = readArguments();
  try {
    const env = readEnvironment();
    const target =
      values.address === undefined
        ? readConfiguredAddress(env)
        : createEmbeddedAddress(values.address, values.namespace);
    if (target === null) throw new Error(USAGE);
    if (values.address === undefined) await rejectOnStop(stop, requireOwnServer(target, env));
    await loadBinding(env, log);
    await runWorkerProcess({
      ...(await buildProcessOptions(values, env)),
      target,
      log,
      stop,
      onReady: (hostId, taskQueues) => printReady(values.json, target, hostId, taskQueues),
    });
    process.exit(0);
  } catch (error) {
    if (stop.aborted && error === stop.reason) process.exit(0);
    exitWithFailure(error, log);
  }
}

type Arguments = ReturnType<typeof readArguments>;

function readArguments() {
  return parseArgs({ options: OPTIONS }).values;
}

/** The meaning of the arguments and the environment for the worker process. */
async function buildProcessOptions(
  values: Arguments,
  env: Environment,
): Promise<Omit<WorkerProcessOptions, 'target' | 'log' | 'stop' | 'onReady'>> {
  const known = values.pieces === undefined ? null : (JSON.parse(values.pieces) as HostPieces);
  return {
    stateDir: values['state-dir'] ?? env.stateDir,
    keeper: values.keeper ?? known?.keeper ?? (await resolveStackPieces(env, { install: false })).keeper,
    pieces: known === null ? lazyPieces(env) : () => Promise.resolve(known),
    extra: lazyExtras(env),
    disk: imageDisks(env),
    bootTimeoutMs: env.bootTimeoutMs,
    diskFullLimitMs: env.diskFullLimitMs,
    orphanTimeoutMs: env.orphanTimeoutMs,
    snapshots: env.snapshots,
    cpuTemplate: env.cpuTemplate,
    embedded: values.embedded,
    durability: durabilityOf(env, values.embedded ? 'embedded' : 'own'),
    allowedMountRoots: values['allow-mounts'],
    allowedGit: values['allow-git'],
    allowedServices: values['allow-services'],
    allowsRetention: values['allow-keep'],
    allowsExec: values['allow-exec'],
    warm: values.warm.length === 0 ? env.warm : readWarm(values.warm),
    // On the embedded stack, commands pass each run its variables, because any account of the machine may start a run
    // there.
    lentVariables: values.embedded
      ? NO_LENT_VARIABLES
      : createLentVariables({
          secretsFile: values['secrets-file'] ?? env.secretsFile,
          allowed: values['allow-env'],
          environment: env.variables,
          undecodable: env.undecodable,
        }),
    // The supervisor of the embedded stack names them all.
    skills: values.embedded ? values.skills : [...values.skills, ...env.skills],
    skillTurnLimitMs: env.skillTurnLimitMs,
    variables: env.variables,
  };
}

/** The command line has checked them. */
function readWarm(texts: readonly string[]): readonly WarmCount[] {
  const shapes = parseWarmShapes(texts);
  if ('problem' in shapes) throw new Error(`--warm: ${shapes.problem}`);
  return shapes;
}

function printReady(asJson: boolean, target: TemporalAddress, hostId: string, taskQueues: readonly string[]): void {
  const { address, namespace } = target;
  process.stdout.write(
    asJson
      ? `${JSON.stringify({ state: 'ready', hostId, address, namespace, taskQueues })}\n`
      : `voidbox-worker ready: host ${hostId}, server ${address}, namespace ${namespace}, task queues ${taskQueues.join(', ')}\n`,
  );
}

function exitWithFailure(error: unknown, log: Log): never {
  if (error instanceof NoServerError || error instanceof SetupError) {
    process.stderr.write(`error: ${error.message}\n${indented(error.remedy ?? '')}`);
    process.exit(EXIT_ENVIRONMENT);
  }
  if (isCodedError(error) && error.code === 'host/state-format') {
    process.stderr.write(`error: ${error.message} (${error.code})\n${indented(remedyOf(error.code) ?? '')}`);
    process.exit(EXIT_ENVIRONMENT);
  }
  log('error', error instanceof Error && error.stack !== undefined ? error.stack : textOf(error));
  process.exit(1);
}

/** The exit code of commands for a problem outside of this process. */
const EXIT_ENVIRONMENT = 3;

function indented(remedy: string): string {
  return remedy === '' ? '' : `${remedy.replace(/^/gm, '  ')}\n`;
}

/** A server that starts at the same time is waited for. @throws NoServerError when it is not there in time, or refuses */
async function requireOwnServer(target: TemporalAddress, env: Environment): Promise<void> {
  const until = Date.now() + SERVER_LIMIT_MS;
  for (;;) {
    try {
      return await (await connectOwnServer(target, env)).close();
    } catch (error) {
      if (!(error instanceof NoServerError) || error.kind === 'refused' || Date.now() > until) throw error;
      await sleep(SERVER_AGAIN_MS);
    }
  }
}
