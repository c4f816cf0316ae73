/** Texts by name, of skills and references. */
import type { ReferenceLoader, TopicConfig } from '../../domain/step-machine/definition.ts';
import { topicContent } from '../drive/callback-value.ts';
import { shorten } from '../../domain/units/quote.ts';

export type Topics = Readonly<Record<string, TopicConfig>>;

export function topicList(topics: Topics): string {
  return Object.entries(topics)
    .map(([name, { label }]) => `${name}: ${label}\n`)
    .join('');
}

/** @throws {Error} naming the topics that there are */
export function topicText(topics: Topics, name: string | undefined, refs: ReferenceLoader): string {
  const known = `Topics: ${Object.keys(topics).join(', ') || 'none'}.`;
  if (name === undefined) throw new Error(`topic needs the name of a topic. ${known}`);
  if (!Object.hasOwn(topics, name)) throw new Error(`Unknown topic "${shorten(name)}". ${known}`);
  return `${topicContent(topics, name, refs)}\n`;
}
