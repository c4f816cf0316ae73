/**
 * Publishes the output file of a service while it serves. The file is checked every few seconds, and each change
 * becomes an event. The longer a service serves, the longer the interval between publications may be, so that events do
 * not grow with time.
 */
import { Buffer } from 'node:buffer';
import { createHash } from 'node:crypto';
import { isCodedError } from '../../domain/errors/coded-error.ts';
import { endsVm } from '../../domain/errors/error-code.ts';
import type { DataRef, RedactedData } from '../../domain/plan/plan.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { RunEvent } from '../../domain/run/event.ts';
import type { StageResult } from '../../domain/run/stage-result.ts';
import type { Redactor } from '../../domain/security/redactor.ts';
import { sanitizeLine } from '../../domain/security/sanitize.ts';
import { isService } from '../../domain/plan/work.ts';
import type { ActivityDeps } from '../deps.ts';
import type { Listen } from './follow-command.ts';
import { findLastNumber } from '../agent/last-numbered.ts';
import { findBytesMismatch, findOutputMismatch } from './output-check.ts';
import type { Exec, Sandbox } from '../ports/sandbox.ts';
import { redactSource, recordOutputRedaction, withChanges } from './redacted-data.ts';
import type { StageRequest } from '../calls/requests.ts';
import { collectOutputs, mediaTypeOf, type OutcomeFailure } from './outputs.ts';

export const SERVICE_LIMITS = {
  /** The interval between checks of the output file. */
  intervalMs: 2_000,
  /** The size limit of a publication; a larger file is published only as the output at the service's end. */
  publishedBytes: 1024 * 1024,
  /** The interval between publications is at least the age of the service divided by this number. */
  partOfAge: 100,
} as const;

export interface ServiceContext {
  readonly deps: Pick<ActivityDeps, 'events' | 'artifacts' | 'checkOutput' | 'now' | 'disk'>;
  readonly request: StageRequest;
  readonly sandbox: Sandbox;
  readonly redactor: Redactor;
}

export interface ServiceOutput {
  /** Checks the output file if a check is due; throws only the signal's reason. */
  look(signal: AbortSignal): Promise<void>;
}

/** Returns null if the stage is not a service, or if its output is its standard output, which the log gets anyway. */
export function createServiceOutput(context: ServiceContext): ServiceOutput | null {
  const { deps, request } = context;
  const { stage, runId, execKey } = request;
  const { outputFile } = stage;
  if (outputFile === null || !isService(stage.work)) return null;
  let state: PublicationState | null = null;
  let lookedAt = '';
  let isSaid = false;

  const warnOnce = async (reason: string): Promise<void> => {
    if (isSaid) return;
    isSaid = true;
    await warnNotPublished(context, reason);
  };
  const publish = async (signal: AbortSignal): Promise<void> => {
    state ??= await readEarlierPublications(deps, request);
    if (deps.now() < dueAtMs(state)) return;
    const found = await readOutput(context.sandbox, outputFile, signal);
    if (found === null) return;
    if (found === 'too-large') return await warnOnce(`${outputFile} has more than 1 MiB`);
    // An unchanged file costs neither a check nor a write.
    const hash = createHash('sha256').update(found).digest('hex');
    if (hash === lookedAt) return;
    const { bytes, changes } = await redactBytes(found, context.redactor);
    const mismatch = await findBytesMismatch(deps, stage, bytes);
    if (mismatch !== null) {
      lookedAt = hash;
      return await warnOnce(context.redactor.text(mismatch.message));
    }
    const output = withChanges(await deps.artifacts.put(toStream(bytes), mediaTypeOf(outputFile)), changes);
    await recordOutputRedaction(context, output);
    if (output.sha256 === state.output?.sha256) return void (lookedAt = hash);
    const number = state.number + 1;
    const atMs = deps.now();
    await deps.events.append(
      runId,
      [
        {
          id: EVENT_ID.published(execKey, number),
          atMs,
          body: { type: 'stage-published', stage: stage.id, execKey, output },
        },
      ],
      { execKey, fence: context.sandbox.facts.fence },
    );
    state = { ...state, number, atMs, output };
    lookedAt = hash;
  };
  return {
    async look(signal) {
      // A publication does not wait for room, and uses no room that output waits for.
      if (!deps.disk.hasRoomForOutput()) return;
      try {
        await publish(signal);
      } catch (error) {
        signal.throwIfAborted();
        // The reader of the output gets the same error.
        if (isCodedError(error) && (endsVm(error.code) || error.code === 'fence/stale')) return;
        await warnOnce(context.redactor.text(error instanceof Error ? error.message : String(error)));
      }
    },
  };
}

/** Runs as a reader of the service's command, until the command ends. */
export function createPublisher(output: ServiceOutput, exec: Exec): Listen {
  return async ({ signal }) => {
    const ended = exec.wait(signal).then(() => true as const);
    ended.catch(() => undefined);
    for (;;) {
      await output.look(signal);
      if (await waitAtMost(ended, SERVICE_LIMITS.intervalMs)) return;
    }
  };
}

async function waitAtMost(ended: Promise<true>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const pause = new Promise<false>((resolve) => (timer = setTimeout(() => resolve(false), ms)));
  try {
    return await Promise.race([ended, pause]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Collects the results of a cancelled service; every other end is a failure or its own. Writes its writable mounts
 * back. Its output is the content of its file at the end, or else its last publication.
 */
export async function collectAtCancel(
  context: ServiceContext,
  exec: Exec,
  copyBack: () => Promise<OutcomeFailure | null>,
  signal: AbortSignal,
): Promise<Pick<StageResult, 'output'>> {
  const { deps, request, sandbox, redactor } = context;
  const refused = await copyBack();
  if (refused !== null) await warnNotCopied(context, redactor.text(refused.message));
  // Named outputs belong to stages that wait for the success of this one.
  const stage = { ...request.stage, outputs: [] };
  const left = await collectOutputs(deps.artifacts, sandbox, exec, stage, redactor, signal);
  if (left.failure === null && (await findOutputMismatch(deps, stage, left.output)) === null)
    return { output: left.output };
  return await outputPublished(deps, request);
}

/** Returns the last published output, if the VM can no longer be read. */
export async function outputPublished(
  deps: Pick<ActivityDeps, 'events'>,
  request: StageRequest,
): Promise<Pick<StageResult, 'output'>> {
  return { output: (await readEarlierPublications(deps, request)).output };
}

interface PublicationState {
  /** The number of publications; they are numbered from 1, without gaps. */
  readonly number: number;
  /** The time of the last publication; without one, the start of the attempt. */
  readonly atMs: number;
  readonly startedAtMs: number;
  readonly output: DataRef | null;
}

function dueAtMs({ atMs, startedAtMs }: PublicationState): number {
  return atMs + Math.max(0, (atMs - startedAtMs) / SERVICE_LIMITS.partOfAge);
}

/** Reads the last publication, also of an earlier worker. */
async function readEarlierPublications(
  { events }: Pick<ActivityDeps, 'events'>,
  { runId, execKey }: StageRequest,
): Promise<PublicationState> {
  const find = (id: string): Promise<RunEvent | null> => events.find(runId, id);
  const startedAtMs = (await find(EVENT_ID.attempt(execKey, 'started')))?.atMs ?? 0;
  const number = await findLastNumber(
    async (candidate) => (await find(EVENT_ID.published(execKey, candidate))) !== null,
  );
  const last = number === 0 ? null : await find(EVENT_ID.published(execKey, number));
  return {
    number,
    atMs: last?.atMs ?? startedAtMs,
    startedAtMs,
    output: last?.body.type === 'stage-published' ? last.body.output : null,
  };
}

/** Returns null if the file does not exist yet. */
async function readOutput(
  sandbox: Sandbox,
  guestPath: string,
  signal: AbortSignal,
): Promise<Uint8Array | 'too-large' | null> {
  const file = await sandbox.readFile(guestPath, signal);
  if (file === null) return null;
  const parts: Uint8Array[] = [];
  for await (const part of file.bytes) {
    // Leaving the loop closes the source.
    if (file.sizeBytes > SERVICE_LIMITS.publishedBytes) return 'too-large';
    parts.push(part);
  }
  return Buffer.concat(parts);
}

async function redactBytes(
  found: Uint8Array,
  redactor: Redactor,
): Promise<{ readonly bytes: Buffer; readonly changes: RedactedData | null }> {
  const source = redactSource(toStream(found), redactor);
  const parts: Buffer[] = [];
  // Copy each piece, because it may be a view of memory that the redactor reuses.
  for await (const part of source.bytes) parts.push(Buffer.from(part));
  return { bytes: Buffer.concat(parts), changes: source.changes() };
}

async function* toStream(bytes: Uint8Array): AsyncIterable<Uint8Array> {
  yield bytes;
}

/** Reports the first reason per attempt. */
async function warnNotPublished({ deps, request }: ServiceContext, reason: string): Promise<void> {
  const { runId, execKey, stage } = request;
  const message = sanitizeLine(
    `the output of stage ${stage.id} could not be published in its current state: ${reason}`,
  );
  const body = { type: 'notice', level: 'info', message } as const;
  await deps.events
    .append(runId, [{ id: EVENT_ID.attempt(execKey, 'not-published'), atMs: deps.now(), body }])
    .catch(() => undefined);
}

/** Reports that the mounts were not written back; the output exists nevertheless. */
async function warnNotCopied({ deps, request }: ServiceContext, reason: string): Promise<void> {
  const { runId, execKey, stage } = request;
  const message = sanitizeLine(`the writable mounts of stage ${stage.id} are not copied back: ${reason}`);
  const body = { type: 'notice', level: 'warning', message } as const;
  await deps.events.append(runId, [{ id: EVENT_ID.attempt(execKey, 'not-copied'), atMs: deps.now(), body }]);
}
