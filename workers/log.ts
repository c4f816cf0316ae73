/** Lines of a long-lived process: time, level, text; one line each. */
export type Log = (level: 'info' | 'warning' | 'error', message: string) => void;

export function createLog(
  name: string,
  write: (line: string) => void = (line) => void process.stderr.write(line),
): Log {
  return (level, message) =>
    write(`${new Date().toISOString()} ${level} ${name}: ${message.replaceAll('\n', '\n  ')}\n`);
}

export function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
