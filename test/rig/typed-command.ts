/** The command line within the test's own process: what was typed, and what came of it. */
import { Writable } from 'node:stream';
import { createContext } from '../../cli/context.ts';
import { runCli } from '../../cli/program.ts';
import { readEnvironment } from '../../setup/environment.ts';

export interface Typed {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export async function typeCommand(argv: readonly string[], cwd: string, variables: NodeJS.ProcessEnv): Promise<Typed> {
  const texts = { stdout: '', stderr: '' };
  const stream = (name: 'stdout' | 'stderr'): NodeJS.WriteStream =>
    new Writable({
      write(chunk, _encoding, done) {
        texts[name] += String(chunk);
        done();
      },
    }) as unknown as NodeJS.WriteStream;
  const context = createContext(readEnvironment(variables), {
    stdout: stream('stdout'),
    stderr: stream('stderr'),
    stdin: process.stdin,
    cwd: () => cwd,
  });
  return { code: await runCli(argv, context), ...texts };
}
