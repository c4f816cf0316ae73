/** From the path of a skill's source to its graph. */
import { CodedError } from '../../domain/errors/coded-error.ts';
import { loadSkill } from '../bundle/load-skill.ts';
import { buildersOf } from '../lint/builders.ts';
import { Insights } from '../lint/insight.ts';
import { Sources } from '../lint/sources.ts';
import { graphOf, type SkillGraph } from './skill-graph.ts';

/**
 * @param path  the entry, or the folder of the skill
 * @throws CodedError `skill/not-found`, or `skill/unusable` when it cannot be loaded or is a reference, which has no steps
 */
export async function readGraph(
  path: string,
  cwd: string,
): Promise<{ readonly entry: string; readonly graph: SkillGraph }> {
  const { definition, entry } = await loadSkill(path, cwd);
  if (definition.kind === 'reference')
    throw new CodedError('skill/unusable', `${entry} exports a reference, which has topics but no steps to draw`);
  const sources = Sources.read(entry);
  const insights = new Insights(sources, buildersOf(sources));
  return { entry, graph: graphOf(definition, (skill) => insights.of(skill)) };
}
