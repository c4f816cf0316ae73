/** Events of a sandbox's network door, for its program. */
import { setTimeout as sleep } from 'node:timers/promises';
import { isCodedError } from '../domain/errors/coded-error.ts';
import { type DoorNotice, NOTHING_READ, readNotices } from '../domain/run/door-notice.ts';
import { ConnectionError } from '../native/index.ts';
import type { OpenedVm } from './vm-source.ts';

/**
 * A refusal, or the end of a connection. The guest chooses the names in it: printable ASCII, at most 255 characters.
 */
export type NetworkEvent = DoorNotice & {
  /** Milliseconds since the epoch; null if the time is unknown. */
  readonly atMs: number | null;
};

const AGAIN_MS = 200;
/** The keeper already limits their number. */
const ALL = { refused: Number.POSITIVE_INFINITY, closed: Number.POSITIVE_INFINITY };

export interface NetworkSource extends Pick<OpenedVm, 'notices'> {
  /** @throws CodedError `vm/lost`, `fence/stale` */
  readonly renew: () => Promise<void>;
  /** Whether this process has let go of the VM. */
  readonly hasLetGo: () => boolean;
}

/** @throws CodedError `fence/stale` when another process has taken the VM over; the signal's reason */
export async function* networkEvents(
  source: NetworkSource,
  signal: AbortSignal,
): AsyncGenerator<NetworkEvent, void, void> {
  let read = NOTHING_READ;
  do {
    /** Bytes after the last line end. */
    let rest: Uint8Array = new Uint8Array(0);
    try {
      for await (const bytes of source.notices(read.offset, signal)) {
        const next = readNotices(read, concatBytes(rest, bytes), decode, ALL);
        rest = concatBytes(rest, bytes).subarray(next.read.offset - read.offset);
        read = next.read;
        for (const { atMs, notice } of next.told) yield { atMs, ...notice };
      }
    } catch (error) {
      signal.throwIfAborted();
      if (isEnd(source, error)) return;
      if (!(error instanceof ConnectionError)) throw error;
    }
  } while (await isStillOpen(source, signal));
}

/** Whether the stream broke off, but the VM still lives. */
async function isStillOpen(source: NetworkSource, signal: AbortSignal): Promise<boolean> {
  try {
    await source.renew();
  } catch (error) {
    if (isEnd(source, error)) return false;
    throw error;
  }
  await sleep(AGAIN_MS, undefined, { signal }).catch(() => signal.throwIfAborted());
  return true;
}

function isEnd({ hasLetGo }: NetworkSource, error: unknown): boolean {
  return hasLetGo() || (isCodedError(error) && error.code === 'vm/lost');
}

function concatBytes(first: Uint8Array, second: Uint8Array): Uint8Array {
  const all = new Uint8Array(first.length + second.length);
  all.set(first);
  all.set(second, first.length);
  return all;
}

const decode = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);
