/**
 * Starts a run on another machine: sends the plan, the folders that it mounts, the repositories that it works in, and the
 * variables that it names.
 */
import { randomUUID } from 'node:crypto';
import { toWire } from '../../domain/plan/wire.ts';
import { skillOf } from '../../domain/plan/work.ts';
import type { ServiceClient } from '../../http/service-client.ts';
import { ConnectionError } from '../../http/service-error.ts';
import { AppError } from '../app-error.ts';
import type { Machine } from '../machine.ts';
import { renderCommand } from '../runs/run-id.ts';
import { loginsTaken } from '../start/agent-logins.ts';
import { settleMounts } from '../start/plan-mounts.ts';
import type { StartRequest } from '../start/start-run.ts';
import { sendImages } from './send-images.ts';
import { listRepositories, measureRepositories, requireRepositories, sendRepositories } from './send-repositories.ts';
import { listMounts, measureFolders, sendFolders } from './send-uploads.ts';

/** The service may first fetch what its machine lacks for the run. */
const START_MS = 15 * 60_000;

export interface Tools {
  readonly client: ServiceClient;
  readonly context: Machine;
  readonly onProgress: (line: string) => void;
}

/** @throws AppError, ServiceError; the service keeps nothing of the run then */
export async function startRemotely(request: StartRequest, tools: Tools): Promise<void> {
  const { mock, mockAgents } = request;
  const body = {
    ...(await sendPlan(request, tools)),
    ...(mock === null ? {} : { mock }),
    ...(mockAgents === true ? { mockAgents } : {}),
  };
  await sendStart(['runs'], body, request, tools);
}

/** The parts of a start that name files of this machine. */
export type SentPlan = Pick<
  StartRequest,
  'runId' | 'plan' | 'written' | 'images' | 'baseDir' | 'places' | 'allowMounts' | 'allowGit'
>;

/** Sends the folders and repositories of a plan. @returns the keys of the start that name them and the plan */
export async function sendPlan(request: SentPlan, tools: Tools): Promise<Readonly<Record<string, unknown>>> {
  const { runId, plan, written, images, baseDir, allowMounts: allow, allowGit, places } = request;
  const { context } = tools;
  refuseUnsent(request);
  // As on this machine: a spec of a stranger sends only the folder of the spec.
  await settleMounts({ plan, baseDir, allow, cwd: context.cwd, places }, context.env);
  const repositories = listRepositories(written);
  await requireRepositories(repositories, { baseDir, allow }, context);
  await requireNewId(runId, context);
  const mounts = listMounts(plan);
  const uploads = await sendFolders(mounts, tools);
  const sent = await sendImages(written, images, mounts, tools);
  return {
    plan: toWire(sent.plan),
    uploads: { ...uploads, ...sent.uploads },
    ...(repositories.length === 0 ? {} : { bundles: await sendRepositories(repositories, { baseDir, allow }, tools) }),
    ...(allowGit.length === 0 ? {} : { allowGit }),
  };
}

/**
 * Reads the folders and repositories of a plan for their hashes, and sends nothing.
 * @returns the keys of a start that name them
 * @throws AppError for what a start would refuse
 */
export async function measurePlan(
  request: Omit<SentPlan, 'runId' | 'allowGit'>,
  context: Machine,
): Promise<Readonly<Record<'uploads' | 'bundles', Readonly<Record<string, string>>>>> {
  const { plan, written, baseDir, allowMounts: allow, places } = request;
  refuseUnsent(request);
  await settleMounts({ plan, baseDir, allow, cwd: context.cwd, places }, context.env);
  const repositories = listRepositories(written);
  await requireRepositories(repositories, { baseDir, allow }, context);
  return {
    uploads: await measureFolders(listMounts(plan)),
    bundles: await measureRepositories(repositories, { baseDir, allow }, context),
  };
}

/** @throws AppError if a run has the id */
export async function requireNewId(runId: string, context: Machine): Promise<void> {
  const { index } = await context.stores();
  if (await index.has(runId))
    throw new AppError('usage', 'cli/usage', `run ${runId} already exists: choose another --run-id`);
}

/** Sends the request that starts a run. @throws AppError, ServiceError */
export async function sendStart(
  path: readonly string[],
  body: Readonly<Record<string, unknown>>,
  { runId, hostVariables, input }: Pick<StartRequest, 'runId' | 'hostVariables' | 'input'>,
  { client, context, onProgress }: Tools,
): Promise<void> {
  const json = {
    ...body,
    runId,
    variables: hostVariables,
    ...(input === null ? {} : { input: decodeInput(input) }),
  };
  for (const { owner, file } of loginsTaken(hostVariables, context.env))
    onProgress(`agents use the login of ${owner} on this machine (${file}), without its refresh token`);
  // With its key, a start that is sent again starts no second run.
  const headers = { 'idempotency-key': randomUUID() };
  const start = { path, headers, body: { json }, answerMs: START_MS };
  await client
    .retry(() => client.change(start))
    .catch((error: unknown) => {
      throw error instanceof ConnectionError && error.kind === 'broken' ? createLostError(error, runId) : error;
    });
}

/** Parts of a plan that are on this machine and cannot be sent. @throws AppError `cli/not-remote` */
export function refuseUnsent({ plan, images }: Pick<StartRequest, 'plan' | 'images'>): void {
  const folder = images.find(({ kind }) => kind !== 'tar' && kind !== 'oci-layout');
  if (folder !== undefined)
    throw createRefusal(
      `the spec uses the folder ${folder.path} as an image, and an upload has no owners and times of files`,
      'Make a tar of it, and name the tar: tar -C FOLDER -cf image.tar .',
    );
  for (const { id, sandbox } of plan.scopes)
    for (const { source, mode } of sandbox.mounts)
      if (mode !== 'ro')
        throw createRefusal(
          `scope ${id} mounts ${source.path} with \`mode: ${mode}\`, and another machine cannot write to it`,
          'Write `mode: ro`, and declare what the run makes as `outputs`.',
        );
  for (const { id, work } of plan.stages)
    if (skillOf(work) !== null) throw createRefusal(`stage ${id} runs a step machine, whose code is on this machine`);
}

const START_THERE =
  'Start the spec on the machine of the service, or use this machine: unset VOIDBOX_SERVER, and voidbox logout';

export function createRefusal(message: string, remedy: string = START_THERE): AppError {
  return new AppError('usage', 'cli/not-remote', message, remedy);
}

function createLostError(error: ConnectionError, runId: string): AppError {
  return new AppError(
    'environment',
    'cli/no-service',
    `${error.message}; the run may have been started`,
    `See whether it was: ${renderCommand('status', runId)}`,
    error,
  );
}

/** @throws AppError for bytes that JSON cannot carry */
function decodeInput(input: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(input);
  } catch {
    throw createRefusal('the input is not UTF-8 text', 'Mount a folder with the file instead.');
  }
}
