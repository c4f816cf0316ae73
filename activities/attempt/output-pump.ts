/**
 * Copies the output of an exec from the sandbox's spool into the event log, from the store's cursor on. Output is
 * redacted, in order, in pieces of at most 64 KiB. Memory is bounded, because reading waits for writing.
 */
import { Buffer } from 'node:buffer';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import type { NewRunEvent } from '../../domain/run/event.ts';
import type { RedactedPiece as Piece, Redactor } from '../../domain/security/redactor.ts';
import type { EventLog } from '../ports/event-log.ts';
import type { PumpDisk } from '../ports/pump-disk.ts';
import type { Exec } from '../ports/sandbox.ts';
import { diskStaysFull } from '../vm/wait-for-room.ts';

const PIECE_BYTES = 64 * 1024;
/** The number of buffered bytes at which reading waits for the store. */
const FLUSH_BYTES = 256 * 1024;
const FLUSH_INTERVAL_MS = 100;
/** The interval between checks of a full disk. */
const ROOM_INTERVAL_MS = 500;

export interface PumpOptions {
  readonly runId: string;
  readonly stage: string;
  readonly execKey: string;
  readonly fence: number;
  readonly exec: Exec;
  readonly events: EventLog;
  readonly redactor: Redactor;
  readonly now: () => number;
  readonly disk: PumpDisk;
}

type StreamName = 'stdout' | 'stderr';
const STREAM_NAMES = ['stdout', 'stderr'] as const;

/**
 * Resolves when both streams have ended and all their bytes are stored, in their order of arrival if the backend knows
 * it.
 * @param stop aborted by the caller to end the pump, and by the pump if a stream or the store fails
 * @throws errors of the sandbox or the store, and the reason of `stop`
 */
export async function pumpOutput(options: PumpOptions, stop: AbortController): Promise<void> {
  const { events, exec, execKey, runId } = options;
  const { signal } = stop;
  const from = {
    stdout: await events.outputCursor(runId, execKey, 'stdout'),
    stderr: await events.outputCursor(runId, execKey, 'stderr'),
  };
  const writer = createPieceWriter(options, stop);
  const streams = {
    stdout: options.redactor.stream(from.stdout),
    stderr: options.redactor.stream(from.stderr),
  };
  const writePieces = async (stream: StreamName, bytes: Uint8Array): Promise<void> => {
    for (const piece of streams[stream].push(bytes)) await writer.add({ ...piece, stream });
  };
  const finish = async (stream: StreamName): Promise<void> => {
    signal.throwIfAborted();
    for (const piece of streams[stream].flush()) await writer.add({ ...piece, stream });
  };
  try {
    const ordered = exec.outputs?.(from, signal);
    if (ordered !== undefined) {
      for await (const { stream, bytes } of ordered) await writePieces(stream, bytes);
      for (const stream of STREAM_NAMES) await finish(stream);
    } else {
      const pumps = STREAM_NAMES.map(async (stream) => {
        for await (const chunk of exec.output(stream, from[stream], signal)) await writePieces(stream, chunk);
        await finish(stream);
      });
      try {
        await Promise.all(pumps);
      } catch (error) {
        stop.abort(error);
        await Promise.allSettled(pumps);
        throw error;
      }
    }
    await writer.end();
  } catch (error) {
    writer.throwFailure();
    throw error;
  } finally {
    writer.dispose();
  }
}

interface StreamPiece extends Piece {
  readonly stream: StreamName;
}

interface PieceWriter {
  add(piece: StreamPiece): Promise<void>;
  end(): Promise<void>;
  /** @throws the first failure of the store, and the reason of an abort */
  throwFailure(): void;
  dispose(): void;
}

/**
 * @param stop aborted if the store fails, because a command without further output would otherwise hide the failure
 * until its end
 */
function createPieceWriter(options: PumpOptions, stop: AbortController): PieceWriter {
  const { signal } = stop;
  let buffered: StreamPiece[] = [];
  let bufferedBytes = 0;
  let timer: NodeJS.Timeout | undefined;
  let tail: Promise<void> = Promise.resolve();
  let failure: { readonly error: unknown } | null = null;

  const flush = (final: boolean): Promise<void> => {
    clearTimeout(timer);
    timer = undefined;
    tail = tail
      .then(async () => {
        if (failure !== null || signal.aborted) return;
        const { ready, rest } = final ? { ready: buffered, rest: [] } : holdBackCharacters(buffered);
        buffered = rest;
        bufferedBytes = rest.reduce((sum, piece) => sum + piece.bytes.length, 0);
        const events = groupByStream(ready).flatMap(({ stream, pieces }) =>
          joinPieces(pieces).map((piece) => outputEvent(options, stream, piece)),
        );
        if (events.length > 0) await appendOnceThereIsRoom(options, events, signal);
      })
      .catch((error: unknown) => {
        failure ??= { error };
        stop.abort(error);
      });
    return tail;
  };
  const throwFailure = (): void => {
    if (failure !== null) throw failure.error;
    signal.throwIfAborted();
  };

  return {
    async add(piece) {
      throwFailure();
      buffered.push(piece);
      bufferedBytes += piece.bytes.length;
      if (bufferedBytes >= FLUSH_BYTES) await flush(false);
      else timer ??= setTimeout(() => void flush(false), FLUSH_INTERVAL_MS);
      throwFailure();
    },
    async end() {
      await (buffered.length > 0 ? flush(true) : tail);
      throwFailure();
    },
    throwFailure,
    dispose: () => clearTimeout(timer),
  };
}

/** Groups neighbouring pieces of the same stream, in their order. */
function groupByStream(
  pieces: readonly StreamPiece[],
): readonly { readonly stream: StreamName; readonly pieces: readonly Piece[] }[] {
  const groups: { stream: StreamName; pieces: Piece[] }[] = [];
  for (const { stream, ...piece } of pieces) {
    const last = groups.at(-1);
    if (last?.stream === stream) last.pieces.push(piece);
    else groups.push({ stream, pieces: [piece] });
  }
  return groups;
}

/**
 * Holds back the beginning of a character at the end of each stream, because the rest of the character is still
 * missing.
 */
function holdBackCharacters(pieces: readonly StreamPiece[]): {
  readonly ready: readonly StreamPiece[];
  readonly rest: StreamPiece[];
} {
  const ready = [...pieces];
  const rest: StreamPiece[] = [];
  for (const stream of STREAM_NAMES) {
    const at = ready.findLastIndex((piece) => piece.stream === stream);
    if (at === -1) continue;
    const held = holdBackPartialCharacter([ready[at]!]);
    if (held.rest.length === 0) continue;
    ready.splice(at, 1, ...held.ready.map((piece) => ({ ...piece, stream })));
    rest.push(...held.rest.map((piece) => ({ ...piece, stream })));
  }
  return { ready, rest };
}

/**
 * Waits only for room; other errors are thrown. A repeated append is safe, because the store knows which events it
 * already has.
 */
async function appendOnceThereIsRoom(
  { disk, events, runId, execKey, fence }: PumpOptions,
  added: readonly NewRunEvent[],
  signal: AbortSignal,
): Promise<void> {
  const givenUpAtMs = performance.now() + disk.limitMs;
  while (!signal.aborted) {
    if (disk.hasRoomForOutput()) {
      try {
        await events.append(runId, added, { execKey, fence });
        return;
      } catch (error) {
        if (!disk.isFull(error)) throw error;
      }
    }
    if (performance.now() > givenUpAtMs) throw diskStaysFull(`output of ${execKey}`, disk.limitMs);
    await new Promise((resolve) => setTimeout(resolve, ROOM_INTERVAL_MS));
  }
}

function outputEvent(options: PumpOptions, stream: StreamName, piece: Piece): NewRunEvent {
  const text = decodeUtf8(piece.bytes);
  return {
    id: EVENT_ID.output(options.execKey, stream, piece.from),
    atMs: options.now(),
    body: {
      type: 'output',
      stage: options.stage,
      execKey: options.execKey,
      stream,
      from: piece.from,
      to: piece.to,
      ...(text === null
        ? { encoding: 'base64', data: Buffer.from(piece.bytes).toString('base64') }
        : { encoding: 'utf8', data: text }),
    },
  };
}

function decodeUtf8(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

/** Returns true for a piece that redaction did not change. Only such a piece can be cut anywhere. */
function isVerbatim(piece: Piece): boolean {
  return piece.bytes.length === piece.to - piece.from;
}

/** Joins neighbouring pieces, up to the size limit of a piece. */
export function joinPieces(pieces: readonly Piece[]): Piece[] {
  const joined: Piece[] = [];
  let group: Piece[] = [];
  let size = 0;
  const close = (): void => {
    const first = group[0];
    const last = group.at(-1);
    if (first !== undefined && last !== undefined)
      joined.push({
        from: first.from,
        to: last.to,
        bytes: group.length === 1 ? first.bytes : Buffer.concat(group.map((piece) => piece.bytes)),
      });
    group = [];
    size = 0;
  };
  for (const piece of pieces.flatMap(cutToSize)) {
    const last = group.at(-1);
    if (size + piece.bytes.length > PIECE_BYTES || (last !== undefined && last.to !== piece.from)) close();
    group.push(piece);
    size += piece.bytes.length;
  }
  close();
  return joined;
}

function cutToSize(piece: Piece): Piece[] {
  if (piece.bytes.length <= PIECE_BYTES || !isVerbatim(piece)) return [piece];
  const cuts: Piece[] = [];
  let start = 0;
  while (start < piece.bytes.length) {
    const wanted = Math.min(start + PIECE_BYTES, piece.bytes.length);
    const end =
      wanted === piece.bytes.length
        ? wanted
        : Math.max(start + 1, wanted - partialCharacterLength(piece.bytes.subarray(start, wanted)));
    cuts.push({ from: piece.from + start, to: piece.from + end, bytes: piece.bytes.subarray(start, end) });
    start = end;
  }
  return cuts;
}

/** Holds back the start of a character whose rest has not arrived, so that text stays text in the events. */
function holdBackPartialCharacter(pieces: readonly Piece[]): {
  readonly ready: readonly Piece[];
  readonly rest: Piece[];
} {
  const last = pieces.at(-1);
  if (last === undefined || !isVerbatim(last)) return { ready: pieces, rest: [] };
  const length = partialCharacterLength(last.bytes);
  if (length === 0) return { ready: pieces, rest: [] };
  const cut = last.bytes.length - length;
  const rest = { from: last.to - length, to: last.to, bytes: last.bytes.subarray(cut) };
  const ready =
    cut === 0
      ? pieces.slice(0, -1)
      : [...pieces.slice(0, -1), { from: last.from, to: rest.from, bytes: last.bytes.subarray(0, cut) }];
  return { ready, rest: [rest] };
}

/** Returns the number of bytes at the end that begin a UTF-8 character without completing it: 0 to 3. */
function partialCharacterLength(bytes: Uint8Array): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back += 1) {
    const byte = bytes[bytes.length - back] ?? 0;
    if (byte < 0x80) return 0;
    if (byte >= 0xc0) {
      const needed = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
      return back < needed ? back : 0;
    }
  }
  return 0;
}
