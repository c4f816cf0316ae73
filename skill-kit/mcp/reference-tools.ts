/** A reference skill as tools: its texts by topic. */
import type { ReferenceDefinition, ReferenceLoader } from '../../domain/step-machine/definition.ts';
import type { ToolReply, ToolSet } from './tool-set.ts';
import { listTopics, readTopic, topicTools } from './topic-tools.ts';

export function referenceTools(reference: ReferenceDefinition, refs: ReferenceLoader): ToolSet {
  const { description, name, topics, version } = reference;
  return {
    name,
    version,
    instructions: `${description}\n\nA collection of texts. Call \`topics\` to see what there is, then \`topic\` with a name to read one.`,
    tools: topicTools(topics),
    async call(tool, args) {
      return tool === 'topics' ? toLines(listTopics(topics), topics) : toContent(readTopic(topics, args['name'], refs));
    },
    async close() {},
  };
}

/** Texts are read by models as they are; JSON around them would only escape them. */
function toContent(reply: ToolReply): ToolReply {
  return reply.isError
    ? { ...reply, text: `${String(reply.structured['message'])} ${String(reply.structured['remedy'])}` }
    : { ...reply, text: String(reply.structured['content']) };
}

function toLines(reply: ToolReply, topics: ReferenceDefinition['topics']): ToolReply {
  const lines = Object.entries(topics).map(([name, { label }]) => `${name}: ${label}`);
  return { ...reply, text: lines.join('\n') };
}
