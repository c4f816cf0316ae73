/** Skills of the figures as their authors would hand them out: what workers load, and what `skill build` makes. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { buildSkill } from '../skill-kit/bundle/build-skill.ts';
import { findPackageRoot } from '../setup/package-root.ts';

export interface StepScripts {
  /** The source of the looping skill. */
  readonly entry: string;
  /** The built code of the looping skill. */
  readonly script: string;
  /** `scripts/run` of two skills that differ only in the library of their schemas. */
  readonly zod: string;
  readonly arktype: string;
}

const STEPS = (
  library: string,
  text: string,
): string => `import { skill, terminal, ${library} } from 'voidbox/skill-kit';
export default skill({ name: '${library}', version: '1.0.0', description: 'Asks for a text', entry: 'ask' })
  .step('ask', { prompt: 'Say it.', response: ${text}, next: terminal })
  .build();
`;

export async function writeStepScripts(workDir: string): Promise<StepScripts> {
  const loop = JSON.stringify(join(findPackageRoot(), 'dist/bench/loop-skill.js'));
  const entry = await buildScript(workDir, 'loop', `import { loopSkill } from ${loop};\nexport default loopSkill();\n`);
  await buildScript(workDir, 'z', STEPS('z', 'z.object({ text: z.string() })'));
  await buildScript(workDir, 'type', STEPS('type', "type({ text: 'string' })"));
  const run = (name: string): string => join(workDir, 'built', name, 'scripts/run');
  return { entry, script: join(workDir, 'built/loop/bin/loop.cjs'), zod: run('z'), arktype: run('type') };
}

/** Writes a skill and builds it. @returns the source */
async function buildScript(workDir: string, name: string, code: string): Promise<string> {
  const folder = join(workDir, name);
  mkdirSync(folder, { recursive: true });
  const entry = join(folder, 'skill.mjs');
  writeFileSync(entry, code);
  await buildSkill({
    path: entry,
    cwd: workDir,
    outDir: join(workDir, 'built', name),
    mode: { kind: 'node' },
    protocol: 'session',
    force: false,
    lint: () => Promise.resolve([]),
  });
  return entry;
}
