/** Artifacts of a service on another machine. A client reads only artifacts that a run names. */
import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ArtifactStore } from '../../activities/ports/artifacts.ts';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { DataRef } from '../../domain/plan/plan.ts';
import { isSha256 } from '../../domain/units/sha256.ts';
import type { ServiceClient } from '../../http/service-client.ts';
import { ConnectionError, ServiceError } from '../../http/service-error.ts';

const PAUSES_MS = [200, 500, 1_000, 2_000];

/** @param namedBy  the run that names an artifact, by its hash, as the reader of events finds it */
export function createHttpArtifactStore(client: ServiceClient, namedBy: ReadonlyMap<string, string>): ArtifactStore {
  return {
    put: refuse,
    claim: refuse,
    open: (ref, offset = 0) => read(client, namedBy, ref, offset),
  };
}

function refuse(): Promise<never> {
  return Promise.reject(
    new ServiceError('a service on another machine stores artifacts of its own runs only', {
      fault: 'usage',
      code: 'cli/not-remote',
      remedy: 'Use the command on the machine of the service.',
    }),
  );
}

/** Compares the hash if it reads from the first byte; the service compares it for any offset. */
async function* read(
  client: ServiceClient,
  namedBy: ReadonlyMap<string, string>,
  { sha256, sizeBytes }: DataRef,
  offset: number,
): AsyncGenerator<Uint8Array> {
  if (!isSha256(sha256))
    throw new CodedError('store/damaged', `${JSON.stringify(sha256)} is not the sha256 of an artifact`);
  if (!Number.isSafeInteger(offset) || offset < 0)
    throw new RangeError(`offset ${offset} is not a position in an artifact`);
  const runId = namedBy.get(sha256);
  if (runId === undefined) throw new CodedError('store/damaged', `no run that was read names artifact ${sha256}`);
  const hash = createHash('sha256');
  let position = offset;
  for (let failed = 0; position < sizeBytes || position === 0; failed += 1) {
    try {
      const answer = await openPart(client, runId, sha256, position);
      requireSize(answer, { sha256, sizeBytes, position });
      for await (const chunk of client.readBytes(answer)) {
        position += chunk.byteLength;
        if (position > sizeBytes)
          throw new CodedError('store/damaged', `artifact ${sha256}: the service sends more than ${sizeBytes} bytes`);
        failed = 0;
        if (offset === 0) hash.update(chunk);
        yield chunk;
      }
      break;
    } catch (error) {
      const pauseMs = PAUSES_MS[failed];
      if (!(error instanceof ConnectionError) || error.kind !== 'broken' || pauseMs === undefined) throw error;
      await sleep(pauseMs);
    }
  }
  const found = offset === 0 ? hash.digest('hex') : sha256;
  if (found !== sha256) throw new CodedError('store/damaged', `artifact ${sha256}: its bytes hash to ${found}`);
}

async function openPart(
  client: ServiceClient,
  runId: string,
  sha256: string,
  position: number,
): Promise<IncomingMessage> {
  const headers = position === 0 ? {} : { range: `bytes=${position}-` };
  try {
    return await client.read({ path: ['runs', runId, 'data', sha256], headers });
  } catch (error) {
    if (!(error instanceof ServiceError) || error.code !== 'api/no-artifact') throw error;
    throw new CodedError('store/damaged', `artifact ${sha256}: ${error.message}`);
  }
}

interface Expected {
  readonly sha256: string;
  readonly sizeBytes: number;
  readonly position: number;
}

/** @throws CodedError `store/damaged` if the artifact has another size, or the answer another part */
function requireSize({ headers, statusCode }: IncomingMessage, { sha256, sizeBytes, position }: Expected): void {
  const part = /^bytes (\d+)-\d+\/(\d+)$/.exec(headers['content-range'] ?? '');
  const [from, total] =
    statusCode === 206 ? [Number(part?.[1]), Number(part?.[2])] : [0, Number(headers['content-length'])];
  if (from === position && total === sizeBytes) return;
  throw new CodedError(
    'store/damaged',
    `artifact ${sha256}: the service has ${total} bytes from ${from}, the run says ${sizeBytes}`,
  );
}
