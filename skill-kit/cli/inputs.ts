/**
 * JSON that a client hands in: as a flag, as a file, or on standard input. Linux takes at most 128 KiB in one argument, so
 * whatever can grow has to have another way in.
 */
import { findLostNumber } from '../../domain/units/lost-number.ts';
import { findDepthProblem } from '../../domain/step-machine/size-limits.ts';
import type { Flags } from './flags.ts';
import { readTextFile } from './input-bytes.ts';
import { type CommandIo, messageOf, UsageError, FolderAsInput } from './io.ts';

export type InputName = 'params' | 'output' | 'history';

export interface Source {
  readonly text: string;
  /** For messages. */
  readonly where: string;
  /** An argument of the command line itself. */
  readonly isInline: boolean;
}

export class Inputs {
  readonly #flags: Flags;
  readonly #io: CommandIo;
  #stdinTakenBy: InputName | null = null;

  constructor(flags: Flags, io: CommandIo) {
    this.#flags = flags;
    this.#io = io;
  }

  has(name: InputName): boolean {
    return this.#flags.text[name] !== undefined || this.#flags.text[`${name}-file`] !== undefined;
  }

  /** Undefined when it was not given. @throws {Error} when it is no JSON, or nested too deep to be written as JSON again */
  async json(name: InputName): Promise<unknown> {
    const source = await this.#source(name);
    if (source === null) return undefined;
    const value = parseJson(source.text, source.where);
    const deep = findDepthProblem(`${source.where} has`, value);
    if (deep !== null) throw new Error(deep);
    return value;
  }

  /** One JSON array, or one entry on each line: a file that grows by appending. Null when none was given. @throws {Error} */
  async history(): Promise<Source | null> {
    return this.#source('history');
  }

  async #source(name: InputName): Promise<Source | null> {
    const inline = this.#flags.text[name];
    const file = this.#flags.text[`${name}-file`];
    if (inline !== undefined && file !== undefined)
      throw new UsageError(`--${name} and --${name}-file are both given. Pass only one of them.`);
    if (inline === '-' || file === '-')
      return { text: await this.#stdin(name), where: `--${name} (standard input)`, isInline: false };
    if (inline !== undefined) return { text: inline, where: `--${name}`, isInline: true };
    if (file === undefined) return null;
    try {
      return { text: readTextFile(file), where: `--${name}-file ${file}`, isInline: false };
    } catch (cause) {
      throw new Error(`--${name}-file ${file} cannot be read: ${messageOf(cause)}. Pass the path of a JSON file.`, {
        cause,
      });
    }
  }

  async #stdin(name: InputName): Promise<string> {
    if (this.#stdinTakenBy !== null) {
      throw new UsageError(
        `--${this.#stdinTakenBy} and --${name} both read standard input, which can be read only once. Pass one of them as a file.`,
      );
    }
    this.#stdinTakenBy = name;
    try {
      return await this.#io.readStdin();
    } catch (cause) {
      if (cause instanceof FolderAsInput)
        throw new UsageError(
          `--${name} (standard input) cannot be read: ${cause.message}. Use a file or a pipe: \`< FILE\`, not \`< FOLDER\`.`,
        );
      throw new Error(`--${name} (standard input) cannot be read: ${messageOf(cause)}. Pass JSON that ends.`, {
        cause,
      });
    }
  }
}

export function parseJson(text: string, where: string | (() => string)): unknown {
  const place = (): string => (typeof where === 'string' ? where : where());
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    const shown = text.length > 80 ? `${text.slice(0, 80)}…` : text;
    throw new Error(`${place()} is not JSON (${messageOf(cause)}): ${shown}`, { cause });
  }
  const number = findLostNumber(text);
  if (number === null) return value;
  throw new Error(`${place()} has the number ${number.slice(0, 80)}, which has no exact value. Pass it as a string.`);
}
