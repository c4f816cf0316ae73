/** Runs the commands of a stage in a VM of this process, and keeps its disk. It needs no Temporal server. */
import { join } from 'node:path';
import type { Sandbox as Vm } from '../../activities/ports/sandbox.ts';
import { agentPartsOf } from '../../domain/agent/agent-cli.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { Plan, SandboxPlan } from '../../domain/plan/plan.ts';
import { CHECKPOINT_LINKS, CHECKPOINT_NAME_RULE, isCheckpointName } from '../../domain/run/checkpoint.ts';
import { quote } from '../../domain/units/quote.ts';
import { valueAt } from '../../domain/units/mapping.ts';
import { FileRefusal, resolveWithin } from '../../files/open-file.ts';
import { keepDisk } from '../../sandbox-api/checkpoint.ts';
import type { LaunchChoice } from '../../sandbox-api/launch-options.ts';
import { createRealVms } from '../../sandbox-api/real-vms.ts';
import { throwNotReady } from '../../sandbox-api/sources.ts';
import type { OpenedVm } from '../../sandbox-api/vm-source.ts';
import { findImageDisk } from '../../setup/images/image-disk.ts';
import { resolveOptionalPieces, resolveVmPieces } from '../../setup/resolve.ts';
import {
  findPreparedSandbox,
  type PreparedSandbox,
  refuseFullPlace,
  refuseUsedName,
} from '../../store/prepared-sandboxes.ts';
import { openStateFolder } from '../../client/vms/state-folder.ts';
import { AppError, createUsageError } from '../app-error.ts';
import type { Machine } from '../machine.ts';
import { selectHostVariables } from '../start/host-variables.ts';
import { listSpecRoots } from '../start/spec-roots.ts';
import { findPreparedStages, type PreparedStage, type PreparedStages } from './prepared-stages.ts';

export interface PrepareRequest {
  readonly plan: Plan;
  readonly stage: string;
  readonly name: string | null;
  readonly replace: boolean;
  readonly withSecrets: boolean;
  /** The memory that is kept too; null: the disk only. */
  readonly memory: 'all' | 'changed' | null;
  readonly baseDir: string;
}

export interface PrepareWatcher {
  readonly signal: AbortSignal;
  readonly onProgress: (line: string) => void;
  readonly onStage: (stage: string) => Promise<void>;
  readonly onOutput: (stream: 'stdout' | 'stderr', bytes: Uint8Array) => Promise<void>;
}

/** The wait for memory that other VMs use. */
const ROOM_LIMIT_MS = 600_000;

/**
 * @throws AppError for a stage that cannot prepare a disk, a stage that fails and a name that is used; CodedError of the
 * VM
 */
export async function prepareSandbox(
  request: PrepareRequest,
  watcher: PrepareWatcher,
  context: Machine,
): Promise<PreparedSandbox> {
  const { env } = context;
  const { plan, name, replace, withSecrets, memory } = request;
  if (name !== null && !isCheckpointName(name))
    throw createUsageError(
      `${quote(name)} is not a name of a prepared sandbox`,
      `A name must have ${CHECKPOINT_NAME_RULE}`,
    );
  const prepared = findPreparedStages(plan, request.stage);
  const variables = readVariables(plan, prepared, context);
  openStateFolder(env.stateDir);
  const from = findFrom(prepared.scope.sandbox, env.stateDir);
  if (memory === 'changed' && !from.hasMemory)
    throw createUsageError(
      '--diff needs a VM that continues with the memory of a prepared sandbox',
      'Name one in `sandbox.snapshot` that was made with --full, or set --full instead of --diff',
    );
  if (memory === 'changed' && from.links >= CHECKPOINT_LINKS)
    throw createUsageError(
      `the chain of ${quote(prepared.scope.sandbox.prepared ?? '')} has ${from.links} links, the most`,
      `Merge it: voidbox snapshot merge ${prepared.scope.sandbox.prepared ?? 'NAME'}, or set --full instead of --diff`,
    );
  const hasSecrets = variables.size > 0 || from.hasSecrets;
  if (hasSecrets && !withSecrets) throw createSecretsError(variables, prepared);
  const place = { stateDir: env.stateDir, maxMib: env.preparedMaxMib };
  if (name !== null && !replace) refuseUsedName(env.stateDir, name);
  refuseFullPlace(place, replace ? name : null);
  const vm = chooseVm(prepared, plan, request.baseDir, context);
  const spec = memory === null ? vm.spec : { ...vm.spec, savesMemory: true };
  const choice = { ...vm, spec, from: from.dir, hasSecrets: from.hasSecrets };
  const opened = await launch(choice, watcher, context);
  try {
    for (const stage of prepared.stages) await runStage(opened.vm, stage, variables, watcher);
    const options = {
      ...(name === null ? {} : { name }),
      ...(memory === null ? {} : { memory }),
      replace,
      withSecrets,
      signal: watcher.signal,
    };
    const madeBy = { run: plan.name, stage: request.stage };
    return await keepDisk(opened.vm, place, hasSecrets, options, madeBy);
  } finally {
    await opened.vm.stop().catch(() => opened.vm.detach());
  }
}

/** The values of host variables that the commands read. */
function readVariables(plan: Plan, { stages }: PreparedStages, context: Machine): ReadonlyMap<string, string> {
  const read = new Set(
    stages.flatMap(({ work }) => work.env.flatMap(({ value }) => (value.kind === 'from-host' ? [value.fromHost] : []))),
  );
  if (read.size === 0) return new Map();
  const left = new Set(stages.map(({ stage }) => stage.id));
  const others = new Set(plan.stages.map(({ id }) => id).filter((id) => !left.has(id)));
  const hostVariables = plan.hostVariables.filter((name) => read.has(name));
  const values = selectHostVariables({ ...plan, hostVariables }, others, context);
  return new Map([...read].map((name) => [name, valueAt(values, name) ?? ''] as const));
}

function createSecretsError(variables: ReadonlyMap<string, string>, { scope }: PreparedStages): AppError {
  const why =
    variables.size > 0
      ? `its commands read ${[...variables.keys()].map((name) => `\`${name}\``).join(', ')} of this machine`
      : `its VM starts from the prepared sandbox ${quote(scope.sandbox.prepared ?? '')}, which may contain secrets`;
  return new AppError(
    'usage',
    'vm/checkpoint-secrets',
    `the disk may contain secrets: ${why}`,
    'If the disk may be kept with them, set --with-secrets',
  );
}

interface Beginning {
  /** The folder of a prepared sandbox; null: the VM begins with an empty disk. */
  readonly dir: string | null;
  readonly hasSecrets: boolean;
  readonly hasMemory: boolean;
  /** The links of its chain; 0 without memory. */
  readonly links: number;
}

function findFrom({ prepared }: SandboxPlan, stateDir: string): Beginning {
  if (prepared === undefined) return { dir: null, hasSecrets: false, hasMemory: false, links: 0 };
  const found = findPreparedSandbox(stateDir, prepared);
  if (typeof found === 'string') throw new CodedError('admit/snapshot-unknown', found);
  const { dir, record } = found;
  const links = record.memory?.links.length ?? 0;
  return { dir, hasSecrets: record.withSecrets, hasMemory: record.memory !== undefined, links };
}

function chooseVm(
  { scope, stages }: PreparedStages,
  plan: Plan,
  baseDir: string,
  { env }: Machine,
): Omit<LaunchChoice, 'from' | 'hasSecrets'> {
  const { mounts, prepared: _, ...sandbox } = scope.sandbox;
  const roots = listSpecRoots(baseDir, [], { env });
  const { layers, image } = agentPartsOf(scope, plan.stages);
  return {
    name: `snapshot of ${stages.at(-1)!.stage.id}`,
    spec: {
      ...sandbox,
      ...(layers.length === 0 ? {} : { layers }),
      ...(image === undefined ? {} : { image }),
      mounts: mounts.map(({ source, guestPath, mode }) => ({
        hostPath: resolveMount(source.kind === 'host' ? source.path : join(baseDir, source.path), roots),
        guestPath,
        mode,
      })),
    },
    env: {},
    isMock: false,
    keepTtlMs: null,
    waitMs: ROOM_LIMIT_MS,
    hasDiskSize: true,
  };
}

function resolveMount(path: string, roots: readonly string[]): string {
  try {
    return resolveWithin(path, { roots });
  } catch (error) {
    if (!(error instanceof FileRefusal)) throw error;
    throw new AppError('usage', 'admit/mount-refused', `the mount of ${path} is refused: ${error.message}`);
  }
}

async function launch(
  { from, ...choice }: LaunchChoice,
  { signal, onProgress }: PrepareWatcher,
  { env }: Machine,
): Promise<OpenedVm> {
  const install = { install: true, onProgress };
  const pieces = await resolveVmPieces(env, install);
  const vms = createRealVms({
    stateDir: env.stateDir,
    env,
    pieces: () => Promise.resolve(pieces),
    extra: async (name) => (await resolveOptionalPieces(env, [name], install).catch(throwNotReady)).get(name)!,
    disk: async (sha256) => {
      const found = await findImageDisk(env, sha256);
      if (found !== null) return found;
      throw new CodedError('host/not-ready', `the disk of the image ${sha256} is not in the cache ${env.cacheDir}`);
    },
  });
  const spec = from === null ? choice.spec : { ...choice.spec, from };
  return await vms.launch({ ...choice, spec, from: null }, signal);
}

/** Runs a command to its end, and passes its output on. @throws AppError if it fails */
async function runStage(
  vm: Vm,
  { stage, work }: PreparedStage,
  variables: ReadonlyMap<string, string>,
  { signal, onStage, onOutput }: PrepareWatcher,
): Promise<void> {
  await onStage(stage.id);
  const env = Object.fromEntries(
    work.env.map(({ name, value }) => [
      name,
      value.kind === 'literal' ? value.text : (variables.get(value.fromHost) ?? ''),
    ]),
  );
  const exec = await vm.exec(
    {
      key: stage.id,
      program: work.program,
      args: work.args,
      env,
      cwd: work.cwd,
      stdin: null,
      timeoutMs: stage.timeoutMs,
      maxOutputBytes: stage.maxOutputBytes,
    },
    signal,
  );
  const pass = async (stream: 'stdout' | 'stderr'): Promise<void> => {
    for await (const bytes of exec.output(stream, 0, signal)) await onOutput(stream, bytes);
  };
  const [exit] = await Promise.all([exec.wait(signal), pass('stdout'), pass('stderr')]);
  if (exit.exitCode === 0 && exit.reason === 'exited') return;
  const how = exit.message === '' ? `ended with ${exit.exitCode} (${exit.reason})` : exit.message;
  throw new AppError('failed', 'stage/exit-nonzero', `stage ${stage.id} failed, so nothing is kept: ${how}`);
}
