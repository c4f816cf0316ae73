/** The command line within the test's own process: what was typed, and what came of it. */
import { Readable, Writable } from 'node:stream';
import { COMMAND_NAMES } from '../../../cli/command-table.ts';
import { createContext } from '../../../cli/context.ts';
import { runCli } from '../../../cli/program.ts';
import { readEnvironment } from '../../../setup/environment.ts';

export interface Typed {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** @param input  standard input; absent: that of the test's process */
export async function typeCommand(
  argv: readonly string[],
  cwd: string,
  variables: NodeJS.ProcessEnv,
  input?: string | Uint8Array,
): Promise<Typed> {
  const texts = { stdout: '', stderr: '' };
  const stream = (name: 'stdout' | 'stderr'): NodeJS.WriteStream =>
    new Writable({
      write(chunk, _encoding, done) {
        texts[name] += String(chunk);
        done();
      },
    }) as unknown as NodeJS.WriteStream;
  const stdin =
    input === undefined ? process.stdin : (Readable.from([Buffer.from(input)]) as unknown as NodeJS.ReadStream);
  const host = { stdout: stream('stdout'), stderr: stream('stderr'), stdin, cwd: () => cwd };
  const context = createContext(readEnvironment(variables), host, COMMAND_NAMES);
  return { code: await runCli(argv, context), ...texts };
}
