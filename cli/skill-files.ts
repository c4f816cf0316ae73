/** Documents of the host that a plan's agents get, as this machine has them. On your own server the worker's host decides. */
import { open, stat } from 'node:fs/promises';
import { basename, join, relative } from 'node:path';
import type { AgentSkill, Plan, StagePlan } from '../domain/plan/plan.ts';
import { skillsOf } from '../domain/plan/work.ts';
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
    for (const skill of skillsOf(work))
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

/** UTF-8 of one document, which travels within the plan. */
const SKILL_BYTES = 128 * 1024;

/**
 * The plan with the text of each document of this machine in it, so that the worker reads none: the run's host may be another one,
 * and a plan must not have it read files of its own.
 * @throws CliError `cli/skill-missing`
 */
export async function withSkillFiles(plan: Plan): Promise<Plan> {
  const stages = await Promise.all(
    plan.stages.map(async (stage): Promise<StagePlan> => {
      const { work } = stage;
      if (work.kind !== 'agent' && work.kind !== 'skill') return stage;
      if (!work.skills.some(({ kind }) => kind === 'file')) return stage;
      return { ...stage, work: { ...work, skills: await Promise.all(work.skills.map(inlined)) } };
    }),
  );
  return { ...plan, stages };
}

async function inlined(skill: AgentSkill): Promise<AgentSkill> {
  if (skill.kind !== 'file' || skill.source.kind !== 'host') return skill;
  const { path } = skill.source;
  const handle = await open(path).catch(() => null);
  // One that is not there was reported before this, where it has to be there.
  if (handle === null) return skill;
  try {
    const bytes = Buffer.alloc(SKILL_BYTES + 1);
    const { bytesRead } = await handle.read(bytes, 0, bytes.length, 0);
    if (bytesRead > SKILL_BYTES)
      throw new CliError(
        EXIT.usage,
        'cli/skill-missing',
        `the skill ${path} has more than ${SKILL_BYTES / 1024} KiB, and travels within the plan`,
        'Shorten it, or mount the folder that holds it',
      );
    const name = basename(path).replace(/\.[^.]*$/, '');
    return { kind: 'inline', name, content: bytes.subarray(0, bytesRead).toString('utf8') };
  } finally {
    await handle.close();
  }
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
