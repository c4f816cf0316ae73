/**
 * The session file that client and command line share: a header, then results and outputs in the order in which they
 * were written. The client reads results from it by line number and, in file mode, appends its outputs. The session
 * itself is stored in its state. This file is read only from the place that the state has recorded, so that a long file
 * costs no more.
 */
import { closeSync, constants, fstatSync, readSync } from 'node:fs';
import type { Handshake } from '../../domain/step-machine/definition.ts';
import type { SessionResult } from '../../domain/step-machine/result.ts';
import { openSessionFile } from './open-session-file.ts';
import type {
  SessionHeader,
  SessionLine,
  SessionOutputLine,
  SessionOutputMode,
  SessionResultLine,
} from './session-lines.ts';
import { writeFully } from './write-fully.ts';

export interface LogPlace {
  /** In bytes; the beginning of a line. */
  readonly offset: number;
  /** The number of lines before this place. */
  readonly lines: number;
}

export interface LogLine extends LogPlace {
  /** From 1, as clients count. */
  readonly number: number;
  readonly text: string;
}

export type SessionOutput = Omit<SessionOutputLine, 'type'>;

const NEWLINE = 0x0a;
const START: LogPlace = { offset: 0, lines: 0 };

export interface HeaderFacts {
  readonly sessionId: string;
  readonly skill: string;
  readonly handshake: Handshake;
  readonly params: unknown;
  readonly createdAt: string;
  readonly outputMode: SessionOutputMode;
}

export function headerLine({ sessionId, skill, handshake, params, createdAt, outputMode }: HeaderFacts): string {
  const { host, toolsAvailable, isSubagent } = handshake;
  const tools = toolsAvailable.length === 0 ? {} : { tools: toolsAvailable };
  const header: SessionHeader = {
    type: 'header',
    sessionId,
    skill,
    host,
    ...tools,
    ...(isSubagent ? { isSubagent } : {}),
    params,
    createdAt,
    outputMode,
  };
  return line(header);
}

export function resultLine(result: SessionResult): string {
  return line({ type: result.kind, ...result } as SessionResultLine);
}

export function outputLine({ step, output }: SessionOutput): string {
  return line({ type: 'output', step, output });
}

function line(value: SessionLine): string {
  return `${JSON.stringify(value)}\n`;
}

/** Null if the line is something else; an explanation if the line is a malformed output. */
export function readOutput(text: string): SessionOutput | string | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    return `it is not JSON (${(cause as Error).message})`;
  }
  if (typeof value !== 'object' || value === null || !('type' in value)) return 'it is not an object with a `type`';
  if (value.type !== 'output') return null;
  if (!('step' in value) || typeof value.step !== 'string') return 'it has no `step`';
  if (!('output' in value)) return 'it has no `output`';
  return { step: value.step, output: value.output };
}

/** @throws {Error} when the file is there already */
export function createLog(path: string, lines: readonly string[]): void {
  const fd = openSessionFile(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL);
  try {
    writeFully(fd, path, lines.join(''));
  } finally {
    closeSync(fd);
  }
}

/** The session file, open for one advance. */
export class SessionLog {
  readonly #path: string;
  readonly #fd: number;

  /** @throws {Error} as `openSessionFile` */
  constructor(path: string) {
    this.#path = path;
    this.#fd = openSessionFile(path, constants.O_RDWR | constants.O_APPEND);
  }

  close(): void {
    closeSync(this.#fd);
  }

  /**
   * Returns the lines after that place. An editor that rewrote the file may have moved it; then lines are counted from
   * the start.
   */
  linesFrom(place: LogPlace): readonly LogLine[] {
    const { size } = fstatSync(this.#fd);
    const from = this.#has(place, size) ? place : START;
    const bytes = this.#read(from.offset, Math.max(0, size - from.offset));
    const lines: LogLine[] = [];
    for (let start = 0, count = from.lines; start < bytes.length; count++) {
      const newline = bytes.indexOf(NEWLINE, start);
      const end = newline < 0 ? bytes.length : newline;
      const text = bytes.toString('utf8', start, end);
      if (count >= place.lines) lines.push({ offset: from.offset + start, lines: count, number: count + 1, text });
      start = end + 1;
    }
    return lines;
  }

  /** Beginning at a line of its own, whether or not the last one was ended. */
  append(text: string): void {
    writeFully(this.#fd, this.#path, this.#isEnded() ? text : `\n${text}`);
  }

  /** A file that was cut gets empty lines for those that it lacks: numbers of lines that clients were told stay theirs. */
  fillUp(lines: number, place: LogPlace): void {
    const from = this.#has(place, fstatSync(this.#fd).size) ? place : START;
    const missing = lines - from.lines - this.linesFrom(from).length;
    if (missing > 0) writeFully(this.#fd, this.#path, '\n'.repeat(this.#isEnded() ? missing : missing + 1));
  }

  #has({ offset }: LogPlace, size: number): boolean {
    return offset === 0 || (size >= offset && this.#read(offset - 1, 1)[0] === NEWLINE);
  }

  #isEnded(): boolean {
    const { size } = fstatSync(this.#fd);
    return size === 0 || this.#read(size - 1, 1)[0] === NEWLINE;
  }

  #read(offset: number, length: number): Buffer {
    const bytes = Buffer.allocUnsafe(length);
    let read = 0;
    while (read < length) {
      const got = readSync(this.#fd, bytes, read, length - read, offset + read);
      if (got === 0) break;
      read += got;
    }
    return bytes.subarray(0, read);
  }
}
