/** Writes bytes of a guest: the output of a command in its VM, or a patch. */
import { sanitize } from '../../domain/security/sanitize.ts';
import type { Sink } from '../context.ts';

export interface BytesSink {
  write(bytes: Uint8Array): Promise<void>;
  end(): Promise<void>;
}

/** An unfinished line is shown once it has this many characters. */
const LINE_CHARACTERS = 64 * 1024;
/** An unfinished line is also shown after this time, because it may be a question that waits for an answer. */
const LINE_MS = 1_000;

/**
 * Writes bytes unchanged to a pipe or a file; on a terminal it sanitizes them, a line at a time.
 * @param paint  colours sanitized lines for a terminal
 */
export function bytesSink(
  sink: Pick<Sink, 'isTerminal' | 'write'>,
  paint: (text: string) => string = (text) => text,
): BytesSink {
  if (!sink.isTerminal) return { write: (bytes) => sink.write(bytes), end: () => Promise.resolve() };
  const decoder = new TextDecoder();
  let rest = '';
  let late: NodeJS.Timeout | undefined;
  let shown = Promise.resolve();
  const show = (end: number): Promise<void> => {
    clearTimeout(late);
    late = undefined;
    const text = sanitize(rest.slice(0, end));
    rest = rest.slice(end);
    if (rest !== '') showLater();
    if (text !== '') shown = shown.then(() => sink.write(paint(text)));
    return shown;
  };
  const showLater = (): void => {
    late ??= setTimeout(() => void show(rest.length).catch(() => undefined), LINE_MS);
  };
  const push = async (text: string): Promise<void> => {
    rest += text;
    const end = rest.length > LINE_CHARACTERS ? rest.length : rest.lastIndexOf('\n') + 1;
    if (end > 0) await show(end);
    else if (rest !== '') showLater();
  };
  return {
    write: (bytes) => push(decoder.decode(bytes, { stream: true })),
    async end() {
      rest += decoder.decode();
      await show(rest.length);
    },
  };
}
