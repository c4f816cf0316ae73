/** The skill of the figures as its author would hand it out: an entry for workers, and a bundle of its command line. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { rolldown } from 'rolldown';
import { packageRoot } from '../setup/package-root.ts';

export interface StepScripts {
  readonly entry: string;
  /** Bundled, with all that it needs. */
  readonly script: string;
}

export async function writeStepScripts(workDir: string): Promise<StepScripts> {
  const dist = join(packageRoot(), 'dist');
  const folder = join(workDir, 'loop');
  mkdirSync(folder, { recursive: true });
  const entry = join(folder, 'skill.mjs');
  const loop = JSON.stringify(join(dist, 'bench/loop-skill.js'));
  writeFileSync(entry, `import { loopSkill } from ${loop};\nexport default loopSkill();\n`);
  const main = join(folder, 'main.mjs');
  writeFileSync(main, `import { main } from ${JSON.stringify(join(dist, 'sdk/skill-kit/cli.js'))};\nimport skill from './skill.mjs';\nawait main(skill);\n`);
  // In parts, as bundlers make them: what serves MCP is loaded by those who ask for it.
  const made = await rolldown({ input: main, platform: 'node', resolve: { modules: ['node_modules', join(packageRoot(), 'node_modules')] } });
  const { output } = await made.write({ dir: join(workDir, 'built'), format: 'esm' });
  await made.close();
  return { entry, script: join(workDir, 'built', output[0].fileName) };
}
