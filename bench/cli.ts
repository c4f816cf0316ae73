/** CPU time of the light commands, as the operating system counts it for the finished process. */
import { execFile } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type Arm } from './measure.ts';

const run = promisify(execFile);

const SPEC = `api_version: v1
kind: workflow
name: bench
workflow:
  steps:
    - { name: one, run: { program: echo, args: [one] } }
    - { name: two, run: { program: cat, stdin_from: one } }
`;

export function cliArms(bin: string, workDir: string): readonly Arm<'cpuMs' | 'wallMs'>[] {
  const spec = join(workDir, 'bench.yaml');
  writeFileSync(spec, SPEC);
  return [
    { name: 'node -e 0', round: () => measureProcess([process.execPath, '-e', '0']) },
    { name: 'voidbox --help', round: () => measureProcess([process.execPath, bin, '--help']) },
    { name: 'voidbox validate', round: () => measureProcess([process.execPath, bin, 'validate', spec]) },
  ];
}

/** Node 20 reads the whole file that this names each time it starts, which is no doing of the program that it starts for. */
const TIMED =
  'unset NODE_EXTRA_CA_CERTS; TIMEFORMAT="%U %S %R"; time "$@" >/dev/null 2>/dev/null || echo "exit code $?" >&2';

/**
 * Measures one process to its end, without NODE_EXTRA_CA_CERTS in its environment. The output is discarded.
 * @throws Error if the process fails
 */
export async function measureProcess(argv: readonly string[]): Promise<{ cpuMs: number; wallMs: number }> {
  const { stderr } = await run('bash', ['-c', TIMED, 'bash', ...argv]);
  if (stderr.includes('exit code')) throw new Error(`${argv.join(' ').slice(0, 200)}: ${stderr.trim()}`);
  const [user, system, wall] = stderr.trim().split(/\s+/).map(Number);
  if (user === undefined || system === undefined || wall === undefined) throw new Error(`no times in "${stderr}"`);
  return { cpuMs: (user + system) * 1000, wallMs: wall * 1000 };
}
