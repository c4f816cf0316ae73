/** Documents of the host that a plan's agents get, as this machine has them. On your own server the worker's host decides. */
import { stat } from 'node:fs/promises';
import { join, relative } from 'node:path';
import type { Plan } from '../domain/plan/plan.ts';
import { CliError } from './cli-error.ts';
import type { CliContext } from './context.ts';
import { EXIT } from './exit-code.ts';

export interface MissingSkill {
  /** The first stage that has it. */
  readonly stage: string;
  /** As the plan has it: absolute. */
  readonly path: string;
  /** The file that lies there from the working directory, and is not taken; null: none does. */
  readonly beside: string | null;
}

/** In the plan's order, each path once. */
export async function missingSkills(plan: Plan, baseDir: string, cwd: string): Promise<readonly MissingSkill[]> {
  const stages = new Map<string, string>();
  for (const { id, work } of plan.stages)
    for (const skill of work.kind === 'agent' ? work.skills : [])
      if (skill.kind === 'file' && !stages.has(skill.source.path)) stages.set(skill.source.path, id);
  const missing: MissingSkill[] = [];
  for (const [path, stage] of stages) {
    if (await isFile(path)) continue;
    const beside = join(cwd, relative(baseDir, path));
    missing.push({ stage, path, beside: (await isFile(beside)) ? beside : null });
  }
  return missing;
}

async function isFile(path: string): Promise<boolean> {
  return (await stat(path).catch(() => null))?.isFile() === true;
}

export function describeMissingSkill({ stage, path, beside }: MissingSkill): string {
  const where = beside === null ? '' : `; it lies only below the working directory: ${beside}`;
  return `the skill ${path} of stage ${stage} is not a file of this machine${where}`;
}

export function missingSkillRemedy({ beside }: MissingSkill, baseDir: string): string {
  const start = `a relative path starts at the spec's folder, ${baseDir}`;
  return beside === null ? `Create it, or correct the path; ${start}` : `Move it, or correct the path: ${start}`;
}

/** @throws CliError `cli/skill-missing` */
export async function refuseMissingSkills(plan: Plan, baseDir: string, { env, cwd }: CliContext): Promise<void> {
  const [first] = env.temporalConfigured ? [] : await missingSkills(plan, baseDir, cwd);
  if (first !== undefined)
    throw new CliError(
      EXIT.usage,
      'cli/skill-missing',
      describeMissingSkill(first),
      missingSkillRemedy(first, baseDir),
    );
}
