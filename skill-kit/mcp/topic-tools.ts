/** `topics` and `topic`: what a skill or a reference can be asked about. */
import type { ReferenceLoader, TopicConfig } from '../../domain/step-machine/definition.ts';
import { topicContent } from '../drive/callback-value.ts';
import { failure, type ToolReply, type ToolSpec } from './tool-set.ts';

export type Topics = Readonly<Record<string, TopicConfig>>;

export function topicTools(topics: Topics): readonly ToolSpec[] {
  const names = Object.keys(topics);
  if (names.length === 0) return [];
  const failed = {
    status: { type: 'string', const: 'error' },
    message: { type: 'string' },
    remedy: { type: 'string' },
  };
  return [
    {
      name: 'topics',
      title: 'List topics',
      description: 'Lists the topics that can be read, with a label for each.',
      inputSchema: { type: 'object', properties: {} },
      outputSchema: {
        type: 'object',
        properties: {
          topics: {
            type: 'array',
            items: {
              type: 'object',
              properties: { name: { type: 'string' }, label: { type: 'string' } },
              required: ['name', 'label'],
            },
          },
        },
        required: ['topics'],
      },
      readOnly: true,
    },
    {
      name: 'topic',
      title: 'Read a topic',
      description: 'Gives the text of one topic.',
      inputSchema: {
        type: 'object',
        properties: { name: { type: 'string', enum: names, description: 'The name of the topic.' } },
        required: ['name'],
      },
      outputSchema: {
        type: 'object',
        properties: { name: { type: 'string' }, content: { type: 'string' }, ...failed },
        required: ['name'],
      },
      readOnly: true,
    },
  ];
}

export function listTopics(topics: Topics): ToolReply {
  const list = Object.entries(topics).map(([name, { label }]) => ({ name, label }));
  return { structured: { topics: list }, isError: false };
}

export function readTopic(topics: Topics, name: unknown, refs: ReferenceLoader): ToolReply {
  const available = `Available: ${Object.keys(topics).join(', ')}.`;
  if (typeof name !== 'string')
    return failure('arguments', 'topic needs `name`, the name of a topic.', available, true, { name: '' });
  if (!Object.hasOwn(topics, name)) return failure('topic', `Unknown topic "${name}".`, available, true, { name });
  try {
    return { structured: { name, content: topicContent(topics, name, refs) }, isError: false };
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause);
    return failure(
      'topic',
      `Topic "${name}" cannot be read: ${message}`,
      'Tell the user; this must be fixed in the skill.',
      false,
      { name },
    );
  }
}
