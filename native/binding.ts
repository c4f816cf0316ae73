/** The binding (`native/binding`), a module in Rust that this process loads if its host has it. */
import { dlopen } from 'node:process';
import { CodedError } from '../domain/errors/coded-error.ts';

/** The functions of the module. Each promise gives a line of JSON. */
export interface Binding {
  status(dir: string): Promise<string>;
  seal(dir: string, vmKey: string): Promise<string>;
  nextId(): number;
  runProgram(
    id: number,
    program: string,
    args: readonly string[],
    variables: readonly string[],
    input: string,
    limitMs: number,
    mostBytes: number,
  ): Promise<string>;
  stopProgram(id: number): void;
}

let loaded: Binding | null = null;

/** Loads the binding. From then on, this process asks and starts keepers by it. @throws if Node cannot load the file */
export function useBinding(file: string): void {
  const module: { exports: unknown } = { exports: {} };
  dlopen(module, file);
  loaded = module.exports as Binding;
}

/** From now on, this process uses child processes of Node again. */
export function forgetBinding(): void {
  loaded = null;
}

/** Null: this process uses child processes of Node. */
export function findLoadedBinding(): Binding | null {
  return loaded;
}

/**
 * Waits for an answer of the binding. A call that hangs keeps one thread of the binding, and nothing else.
 * @throws CodedError `vm/lost` after the limit, and the reason of the signal
 */
export async function askBinding(
  what: string,
  limitMs: number,
  answering: Promise<string>,
  signal?: AbortSignal,
): Promise<string> {
  let settle: () => void = () => undefined;
  const ended = new Promise<never>((_, reject) => {
    const onAbort = (): void => reject(signal?.reason as Error);
    const timer = setTimeout(() => reject(createLimitError(what, limitMs)), limitMs);
    signal?.addEventListener('abort', onAbort, { once: true });
    settle = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
    };
  });
  try {
    return await Promise.race([answering, ended]);
  } finally {
    settle();
  }
}

export function createLimitError(what: string, limitMs: number): CodedError {
  return new CodedError('vm/lost', `${what} did not end in ${limitMs} ms`);
}
