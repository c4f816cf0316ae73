/** Events of runs of a service on another machine. A connection that is lost is opened again at the last event. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { RunReader } from '../../activities/ports/run-reader.ts';
import { storedEventShape } from '../../domain/run/event-shape.ts';
import type { RunEvent } from '../../domain/run/event.ts';
import type { ServiceClient, ServiceRequest } from '../../http/service-client.ts';
import { ConnectionError, isUnknownRun, parseProblem, ServiceError, toError } from '../../http/service-error.ts';
import { readLines, readStreamedEvents } from '../../http/text-lines.ts';
import { listNamedArtifacts } from '../named-artifacts.ts';

/** The pauses before further tries of a read; a new event begins them again. */
const PAUSES_MS = [200, 500, 1_000, 2_000];
/** A follower waits for a service that is away: the longest pause. */
const MOST_PAUSE_MS = 5_000;
/** How often a follower asks for a run that does not exist yet. */
const UNKNOWN_PAUSE_MS = 500;

/** @param namedBy  gets the artifacts that events name: the run by the hash */
export function createHttpRunReader(client: ServiceClient, namedBy: Map<string, string>): RunReader {
  const note = (runId: string, event: RunEvent): RunEvent => {
    for (const { sha256 } of listNamedArtifacts(event.body)) namedBy.set(sha256, runId);
    return event;
  };
  return {
    async *read(runId, after, { output = true } = {}) {
      for await (const event of readEvents(client, runId, after, output)) yield note(runId, event);
    },
    async *follow(runId, after, signal, { output = true } = {}) {
      for await (const event of followEvents(client, { runId, after, output, signal })) yield note(runId, event);
    },
  };
}

async function* readEvents(
  client: ServiceClient,
  runId: string,
  after: number,
  output: boolean,
): AsyncGenerator<RunEvent> {
  let last = after;
  for (let failed = 0; ; failed += 1) {
    try {
      const answer = await client.read(createRequest(runId, last, output));
      for await (const line of readLines(client.readBytes(answer))) {
        if (line === '') continue;
        const event = parseEvent(line, last, client.name);
        last = event.seq;
        failed = 0;
        yield event;
      }
      return;
    } catch (error) {
      if (isUnknownRun(error)) return;
      const pauseMs = PAUSES_MS[failed];
      if (!(error instanceof ConnectionError) || error.kind !== 'broken' || pauseMs === undefined) throw error;
      await sleep(pauseMs);
    }
  }
}

interface Wanted {
  readonly runId: string;
  readonly after: number;
  readonly output: boolean;
  readonly signal: AbortSignal;
}

async function* followEvents(
  client: ServiceClient,
  { runId, after, output, signal }: Wanted,
): AsyncGenerator<RunEvent> {
  let last = after;
  for (let failed = 0; !signal.aborted;) {
    let pauseMs: number;
    try {
      const request = createRequest(runId, last, output);
      const answer = await client.send({ ...request, signal, headers: { accept: 'text/event-stream' } });
      for await (const { event, data } of readStreamedEvents(client.readBytes(answer))) {
        if (event === 'end') return;
        if (event === 'problem') throw toStreamError(data, client.name);
        if (event !== 'message') continue;
        const parsed = parseEvent(data, last, client.name);
        last = parsed.seq;
        failed = 0;
        yield parsed;
        if (parsed.body.type === 'run-finished' || signal.aborted) return;
      }
      throw new ConnectionError(`${client.name} ended the stream of events`, 'broken');
    } catch (error) {
      if (signal.aborted) return;
      if (isUnknownRun(error) && last === after) pauseMs = UNKNOWN_PAUSE_MS;
      else if (error instanceof ConnectionError) {
        client.reportTrouble(error.message);
        pauseMs = Math.min(200 * 2 ** Math.min(failed, 10), MOST_PAUSE_MS);
        failed += 1;
      } else throw error;
    }
    await sleep(pauseMs, undefined, { signal }).catch(() => undefined);
  }
}

function createRequest(runId: string, after: number, output: boolean): ServiceRequest {
  return { path: ['runs', runId, 'events'], query: { after, ...(output ? {} : { output: 'false' }) } };
}

/** @throws ServiceError for a line that is not an event after the last one */
function parseEvent(line: string, last: number, name: string): RunEvent {
  const event = parse(line) as Partial<RunEvent> | null;
  const isEvent =
    typeof event === 'object' &&
    event !== null &&
    Number.isSafeInteger(event.seq) &&
    event.seq! > last &&
    storedEventShape(event, 'event') === null;
  if (isEvent) return event as RunEvent;
  throw new ServiceError(`${name} sends something else than the event after ${last}`, {
    fault: 'environment',
    code: 'cli/no-service',
    remedy: 'Check that the service has the version of this command line: voidbox --version',
  });
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function toStreamError(data: string, name: string): Error {
  const problem = parseProblem(data);
  if (problem !== null) return toError(problem, problem.status ?? 500);
  return new ConnectionError(`${name} ended the stream of events`, 'broken');
}
