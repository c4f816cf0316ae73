/** Compiles the expressions of a trigger: the condition, and texts with `${{ … }}`. Each mistake has its place. */
import { TRIGGER_LIMITS } from '../../../delivery/trigger-defaults.ts';
import type { CheckTriggerExpressions } from '../../expression/check-trigger.ts';
import type { ExpressionProblem } from '../../expression/language.ts';
import { splitTriggerText } from '../../grammar/trigger-texts.ts';
import { placeIn } from '../stage/condition.ts';
import { locateExpression } from '../stage/texts.ts';
import type { Problems } from '../../text/diagnostics.ts';
import type { Located } from '../../text/tree.ts';
import { quote } from '../../../units/quote.ts';

const DOCS = 'see "Expressions of a trigger" in docs/reference/triggers.md';
/** An expression that its author has not put into a placeholder. */
const BARE = /^\s*(?:input|headers)\s*[.[]/;

/** Each method returns the text as the trigger has it, and reports its mistakes. */
export class TriggerTexts {
  readonly #check: CheckTriggerExpressions;
  readonly #what: string;
  readonly #problems: Problems;
  #expressions = 0;

  /** @param what  the trigger in a message */
  constructor(check: CheckTriggerExpressions, what: string, problems: Problems) {
    this.#check = check;
    this.#what = what;
    this.#problems = problems;
  }

  checkCondition(when: Located<string> | null): string | null {
    if (when === null || when.value === '') return null;
    const what = `\`when\` of ${this.#what}`;
    const [only] = splitTriggerText(when.value.trim()) ?? [];
    if (when.value.includes('${{')) {
      this.#problems.error(
        'spec/bad-placeholder',
        when.at,
        `${what} has a placeholder: ${quote(when.value)}`,
        `the whole value is an expression: write \`when: ${typeof only === 'object' ? only.source : 'input.action == "opened"'}\``,
      );
      return null;
    }
    this.#report(when, this.#check.condition(when.value), what);
    return when.value;
  }

  /** @param name  the key in a message */
  checkText(text: Located<string>, name: string): string {
    const what = `${name} of ${this.#what}`;
    const parts = this.#split(text, what);
    for (const part of parts) {
      if (typeof part === 'string') continue;
      this.#expressions += 1;
      if (this.#expressions > TRIGGER_LIMITS.expressions) break;
      const problems = this.#check.text(part.source);
      this.#report(locateExpression(text, part), problems, `${quote(`\${{ ${part.source} }}`)} in ${what}`);
    }
    if (this.#expressions === TRIGGER_LIMITS.expressions + 1)
      this.#problems.error(
        'spec/too-large',
        text.at,
        `${this.#what} has more than ${TRIGGER_LIMITS.expressions} expressions`,
        'pass the payload as the input of the run, and read it in a stage',
      );
    if (BARE.test(text.value))
      this.#problems.warning(
        'spec/bad-placeholder',
        text.at,
        `${what} is ${quote(text.value)}, which is a text and no expression`,
        `write "\${{ ${text.value.trim()} }}"`,
      );
    return text.value;
  }

  /** A key without an expression that looks like one would put all deliveries together. */
  checkKey(key: Located<string>, name: string): string {
    if (!BARE.test(key.value)) return this.checkText(key, name);
    this.#problems.error(
      'spec/bad-placeholder',
      key.at,
      `${name} of ${this.#what} is ${quote(key.value)}, which is the same text for all deliveries`,
      `write "\${{ ${key.value.trim()} }}"`,
    );
    return key.value;
  }

  #split(text: Located<string>, what: string): NonNullable<ReturnType<typeof splitTriggerText>> {
    if (text.value.length > TRIGGER_LIMITS.textCharacters) {
      this.#problems.error(
        'spec/too-large',
        text.at,
        `${what} has ${text.value.length} characters; at most ${TRIGGER_LIMITS.textCharacters} are allowed`,
        'write a shorter text, or read the payload in a stage',
      );
      return [];
    }
    const parts = splitTriggerText(text.value);
    if (parts !== null) return parts;
    this.#problems.error(
      'spec/bad-placeholder',
      text.at,
      `${what} has a placeholder that is not closed: \`\${{\` without \`}}\``,
      'close it with `}}`, or write `$${{` for the literal text',
    );
    return [];
  }

  #report(text: Located<string>, found: readonly ExpressionProblem[], what: string): void {
    for (const { message, remedy, start } of found) {
      const { at, words } = placeIn(text, start);
      this.#problems.error('spec/bad-expression', at, `${what}: ${message}${words}`, remedy ?? DOCS);
    }
  }
}
