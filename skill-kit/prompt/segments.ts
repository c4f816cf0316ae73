/**
 * Prompt pieces other than plain text and primitives: the agent's role (`system`), and text to show word for word
 * (`view`).
 */
import type { SystemBuilder, SystemSegment, ViewSegment } from '../../domain/step-machine/definition.ts';
import { resolveTemplate } from './prompt-text.ts';

/** As a tag, `` system`...` `` dedents as `prompt` does; as a function it takes the text as it is. */
export const system: SystemBuilder = (first: TemplateStringsArray | string, ...values: unknown[]): SystemSegment =>
  Object.freeze({ kind: 'system', text: typeof first === 'string' ? first : resolveTemplate(first, ...values) });

/**
 * Text that the agent shows as it is. Several texts are put together with a blank line between.
 * @param label  distinguishes several views in one prompt
 */
export function view(content: string | readonly string[]): ViewSegment;
export function view(label: string, content: string | readonly string[]): ViewSegment;
export function view(
  ...given:
    | readonly [content: string | readonly string[]]
    | readonly [label: string, content: string | readonly string[]]
): ViewSegment {
  const [label, content] = given.length === 1 ? [undefined, given[0]] : given;
  const text = Array.isArray(content) ? content.join('\n\n') : content;
  if (typeof text === 'string') return Object.freeze({ kind: 'view', label, text });
  throw new Error(
    `view: the text${label === undefined ? '' : ` of "${label}"`} is ${text === null ? 'null' : typeof text}. Pass a string, or a list of strings.`,
  );
}
