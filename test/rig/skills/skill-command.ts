/** Runs a skill's command line in this process. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SkillDefinition } from '../../../domain/step-machine/definition.ts';
import { runSkillCommand } from '../../../skill-kit/cli/commands.ts';

export interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Surroundings {
  readonly stdin?: string;
  readonly script?: string;
  readonly refsBase?: string;
}

export async function runCommand(
  definition: SkillDefinition,
  argv: readonly string[],
  around: Surroundings = {},
): Promise<Ran> {
  let [stdout, stderr] = ['', ''];
  const io = {
    argv,
    stdout: (text: string) => void (stdout += text),
    stderr: (text: string) => void (stderr += text),
    readStdin: async () => around.stdin ?? '',
    script: around.script ?? null,
  };
  const code = await runSkillCommand(definition, io, around.refsBase);
  return { code, stdout, stderr };
}

/** A folder of its own (0700), removed when disposed of. */
export class TemporaryFolder {
  readonly path = mkdtempSync(join(tmpdir(), 'voidbox-skill-'));

  file(name: string): string {
    return join(this.path, name);
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true });
  }
}

export function linesOf(file: string): Record<string, unknown>[] {
  return readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}
