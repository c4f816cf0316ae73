/**
 * Starts a run for a client of the service, which may be on another machine: it sends a spec or a plan, and uploads
 * instead of folders. A token's run gets nothing of this host.
 */
import type { ServerLink } from '../../client/temporal/server-link.ts';
import { createRunId } from '../../client/runs/new-id.ts';
import { RunExistsError } from '../../client/runs/runs.ts';
import type { Diagnostic } from '../../domain/errors/diagnostic.ts';
import { checkPlan } from '../../domain/language/check-plan.ts';
import type { UploadHashes } from '../../domain/plan/name-uploads.ts';
import type { Plan } from '../../domain/plan/plan.ts';
import type { UploadStore } from '../../store/uploads.ts';
import { AppError } from '../app-error.ts';
import { type Caller, requireRun } from '../access/authenticate.ts';
import type { Machine } from '../machine.ts';
import { listHashes, movePlan, placeBundles, placeUploads, refuseUploads } from '../uploads/place-uploads.ts';
import { unpackAll } from '../uploads/unpack-all.ts';
import type { UnpackLimits } from '../uploads/unpack-upload.ts';
import { listSettled } from '../../domain/pipeline/reuse.ts';
import { acceptPlan, type CompiledRun, type RepeatedOptions } from './compile-run.ts';
import { selectHostVariables } from './host-variables.ts';
import { parsePlaces } from './plan-addresses.ts';
import { resolveFolders } from './plan-mounts.ts';
import {
  type BeforeStart,
  createExistsError,
  mayHaveStarted,
  type StartFrom,
  startRun,
  waitUntilAdmitted,
} from './start-run.ts';
import {
  compileSpec,
  refuseRunId,
  requireFolder,
  type SpecRequest,
  type StartedSpec,
  startOnce,
  startSpec,
} from './start-spec.ts';
import { refuseForStarter, type TokenStarter } from './token-rules.ts';

export interface ClientRequest extends Omit<SpecRequest, 'spec' | 'baseDir'> {
  /** YAML or JSON; null: `plan` is given. */
  readonly spec: string | null;
  /** The wire form of a plan, not checked yet; undefined: `spec` is given. */
  readonly plan: unknown;
  /** As in `SpecRequest`; null: the folder of the uploads. */
  readonly baseDir: string | null;
  /** The hashes of tars, by the paths of folders as the spec or the plan names them. */
  readonly uploads: Readonly<Record<string, string>>;
  /** The hashes of bundles, by the paths of repositories that workspaces name. Absent: none. */
  readonly bundles?: Readonly<Record<string, string>>;
}

export interface ClientTools {
  readonly uploads: UploadStore;
  readonly onProgress: (line: string) => void;
  /** As in `StartRequest`. */
  readonly beforeStart?: BeforeStart;
  /** The limits of all uploads of the start together; other limits are for tests. */
  readonly startLimits?: UnpackLimits;
  /** As in `UnpackTools`. */
  readonly unpackMs?: number;
}

/**
 * Starts a run. If the start fails, nothing of it is left.
 * @throws SpecRefusal, AppError, CodedError `host/disk-full`
 */
export async function startForClient(
  request: ClientRequest,
  caller: Caller,
  tools: ClientTools,
  machine: Machine,
): Promise<StartedSpec> {
  const { spec, baseDir, uploads, bundles = {} } = request;
  const plan = readClientPlan(request, caller);
  const isPlaced = Object.keys(uploads).length > 0 || Object.keys(bundles).length > 0;
  if (caller.kind === 'owner' && spec !== null && !isPlaced) {
    if (baseDir === null) throw createRequestError('`baseDir`: it is required without `uploads`');
    return await startSpec({ ...request, spec, baseDir, ...pickBeforeStart(tools) }, tools.onProgress, machine);
  }
  return await startPlaced({ request, plan, caller, fork: null }, tools, machine);
}

/**
 * Checks what is wrong with the request whatever its spec contains.
 * @returns the plan; null: the request has a spec
 * @throws AppError
 */
export function readClientPlan(request: ClientRequest, caller: Caller): Plan | null {
  const { spec, baseDir, runId, uploads } = request;
  if (caller.kind === 'token') refuseOwnersKeys(request);
  refuseRunId(runId);
  if ((spec === null) === (request.plan === undefined)) throw createRequestError('a start has either `spec` or `plan`');
  if (spec === null && Object.keys(request.params).length > 0)
    throw createRequestError('`params`: a plan has its parameters already');
  if (runId !== null) requireRun(caller, runId);
  if (baseDir !== null) requireFolder('baseDir', baseDir);
  for (const folder of request.allowMounts) requireFolder('allowMounts', folder);
  refuseUploads(uploads, request.bundles);
  return spec === null ? parsePlan(request.plan) : null;
}

export interface PlacedStart {
  readonly request: ClientRequest;
  /** Null: the request has a spec. */
  readonly plan: Plan | null;
  readonly caller: Caller;
  /** Null: the run takes nothing over from another one. */
  readonly fork: ClientFork | null;
}

/** The part of a start that makes it the fork of an earlier run. */
export interface ClientFork {
  readonly repeated: RepeatedOptions;
  /** Decides what the compiled run takes over. @throws AppError for everything that admission would refuse */
  settle(
    compiled: AcceptedRun,
    context: Machine,
    uploads: UploadHashes,
  ): { readonly compiled: AcceptedRun; readonly from: StartFrom };
  /** Returns the variables that the run may read. */
  readVariables(plan: Plan): Promise<Readonly<Record<string, string>>>;
}

/** Starts the run in a folder of its own, in which its uploads are unpacked. */
export async function startPlaced(start: PlacedStart, tools: ClientTools, machine: Machine): Promise<StartedSpec> {
  const { request, plan, caller } = start;
  let diagnostics: readonly Diagnostic[] = [];
  const startAs = async (runId: string): Promise<ServerLink> => {
    requireRun(caller, runId);
    const { index } = await machine.stores();
    if (await index.has(runId)) throw createExistsError(new RunExistsError(runId));
    const folder = await tools.uploads.makeFolder(runId);
    try {
      const started = await startIn(folder, runId, start, { tools, machine });
      diagnostics = started.diagnostics;
      return started.link;
    } catch (error) {
      if (!mayHaveStarted(error)) await tools.uploads.dropFolder(folder);
      throw error;
    }
  };
  const name = plan?.name ?? findName(request.spec ?? '');
  const makeId = (): string => createRunId(name, machine.now());
  const { runId: wanted } = request;
  const { runId, link } =
    wanted === null ? await startOnce(makeId, startAs) : { runId: wanted, link: await startAs(wanted) };
  await waitUntilAdmitted(runId, link, machine);
  return { runId, diagnostics };
}

/**
 * Prepares the run as a start does, and keeps nothing of it. A plan is compiled, so its uploads are not read.
 * @throws what a start would throw before it
 */
export async function tryPlaced(start: PlacedStart, tools: ClientTools, machine: Machine): Promise<PlacedRun> {
  const name = start.plan?.name ?? findName(start.request.spec ?? '');
  const folder = await tools.uploads.makeFolder(createRunId(name, machine.now()));
  try {
    return await prepareIn(folder, start, { tools, machine, isTry: true });
  } finally {
    await tools.uploads.dropFolder(folder);
  }
}

interface StartTools {
  readonly tools: ClientTools;
  readonly machine: Machine;
  /** The uploads of a plan are not unpacked. */
  readonly isTry?: boolean;
}

async function startIn(
  folder: string,
  runId: string,
  start: PlacedStart,
  { tools, machine }: StartTools,
): Promise<{ readonly link: ServerLink; readonly diagnostics: readonly Diagnostic[] }> {
  const { compiled, from, diagnostics, context, allowMounts, starter, uploads } = await prepareIn(folder, start, {
    tools,
    machine,
  });
  const { request, fork } = start;
  const variables = (await fork?.readVariables(compiled.plan)) ?? request.variables;
  const given = from === null ? new Set<string>() : listSettled(compiled.plan, from.reuse);
  const link = await startRun(
    {
      ...compiled,
      from,
      runId,
      hostVariables: selectHostVariables(compiled.plan, given, context, variables),
      allowMounts,
      allowGit: parsePlaces(request.allowGit),
      input: request.input === null ? null : Buffer.from(request.input),
      starter,
      uploads,
      ...pickBeforeStart(tools),
      mayAsk: false,
    },
    context,
    tools.onProgress,
  );
  return { link, diagnostics };
}

interface PlacedRun extends Accepted {
  /** Null: it takes nothing over. */
  readonly from: StartFrom | null;
  readonly context: Machine;
  readonly allowMounts: readonly string[];
  readonly starter: TokenStarter | null;
  readonly uploads: UploadHashes;
}

async function prepareIn(
  folder: string,
  { request, plan, caller, fork }: PlacedStart,
  { tools, machine, isTry = false }: StartTools,
): Promise<PlacedRun> {
  const { uploads, bundles = {} } = request;
  const places = {
    ...placeUploads(uploads, folder, request.baseDir),
    bundles: placeBundles(bundles, folder, request.baseDir),
  };
  if (!isTry || plan === null) await unpackAll(nameSender(caller), folder, places, tools, machine);
  const { baseDir } = places;
  const starter: TokenStarter | null =
    caller.kind === 'owner' ? null : { name: caller.token.name, allowGit: caller.token.allowGit, folder };
  const context: Machine = {
    ...machine,
    cwd: baseDir,
    readStdin: () => Promise.resolve(Buffer.from(request.spec ?? '')),
    ...(starter === null ? {} : { confinedTo: folder }),
  };
  // The owner's run may also use the uploads.
  const allowMounts = starter === null ? [...resolveFolders(request.allowMounts, baseDir), folder] : [];
  const settlePlan = (written: Plan): Plan => {
    const moved = movePlan(written, places);
    if (starter !== null) refuseForStarter(moved, starter);
    return moved;
  };
  const accepting = { ...request, settlePlan, ...(fork === null ? {} : { repeated: fork.repeated }) };
  const { compiled, diagnostics } = await acceptRequest(accepting, plan, allowMounts, context);
  const hashes = listHashes(places);
  const run = { diagnostics, context, allowMounts, starter, uploads: hashes };
  return fork === null ? { ...run, compiled, from: null } : { ...run, ...fork.settle(compiled, context, hashes) };
}

/** Names of tokens never contain a blank. */
export function nameSender(caller: Caller): string {
  return caller.kind === 'owner' ? 'the owner' : caller.token.name;
}

function pickBeforeStart({ beforeStart }: ClientTools): Pick<ClientTools, 'beforeStart'> {
  return beforeStart === undefined ? {} : { beforeStart };
}

/** A run of a client. A plan has no source. */
export type AcceptedRun = Omit<CompiledRun, 'source'> & { readonly source: CompiledRun['source'] | null };

interface Accepted {
  readonly compiled: AcceptedRun;
  readonly diagnostics: readonly Diagnostic[];
}

async function acceptRequest(
  request: ClientRequest & { readonly settlePlan: (plan: Plan) => Plan; readonly repeated?: RepeatedOptions },
  plan: Plan | null,
  allow: readonly string[],
  context: Machine,
): Promise<Accepted> {
  if (plan === null) return await compileSpec(request, allow, context);
  const { mock, mockAgents, settlePlan, repeated } = request;
  const options = {
    mock: repeated?.mock ?? (() => mock),
    mockAgents: repeated?.mockAgents ?? mockAgents,
    images: { given: {}, allow },
    settlePlan,
    onNotice: () => Promise.resolve(),
  };
  return { compiled: { ...(await acceptPlan(plan, context.cwd, options, context)), source: null }, diagnostics: [] };
}

/** Keys of the request that name folders and logins of this host. @throws AppError `admit/mount-refused` */
function refuseOwnersKeys({ baseDir, allowMounts, allowGit }: ClientRequest): void {
  const key =
    baseDir !== null ? 'baseDir' : allowMounts.length > 0 ? 'allowMounts' : allowGit.length > 0 ? 'allowGit' : null;
  if (key === null) return;
  throw new AppError(
    'usage',
    'admit/mount-refused',
    `\`${key}\` names what belongs to the owner of the host, and a token starts the run`,
    key === 'allowGit'
      ? 'Create a token that allows the repository: voidbox token create NAME --scope run --allow-git HOST/PATH'
      : 'Upload the folders that the spec names, and name them in `uploads`.',
  );
}

/** @throws AppError `api/invalid-request` */
function parsePlan(value: unknown): Plan {
  const checked = checkPlan(value);
  if ('plan' in checked) return checked.plan;
  throw createRequestError(`\`plan\`: ${checked.problems.join('; ')}`);
}

/**
 * Finds the name in the text of a spec, for an id that is needed before the spec can be compiled. An unusual text has
 * no name here, and its id begins with `run`.
 */
export function findName(spec: string): string {
  // Blanks before the key stay in its line: a search across lines takes hours for a spec of empty lines.
  return /^(?:name|[ \t]*"name"|\{[ \t]*"name")\s*:\s*["']?([A-Za-z0-9._-]+)/m.exec(spec)?.[1] ?? 'run';
}

function createRequestError(message: string): AppError {
  return new AppError('usage', 'api/invalid-request', message);
}
