/**
 * The language of expressions (`when`, `until`, `for_each`, `${{ }}`): CEL, with the values of a run as variables, and
 * with regular expressions in linear time. Only this file parses; checks and evaluation use it.
 */
import {
  type ASTNode,
  Environment,
  EvaluationError,
  ParseError,
  TypeError as CelTypeError,
} from '@marcbachmann/cel-js';
import { RE2JS, RE2JSException } from 're2js';
import { PrintedNumber } from '../../units/exact-json.ts';
import { LostDigits, type PrintedDoubles, writeDouble } from './json-values.ts';
import { EXPRESSION_LIMITS } from './limits.ts';
import { suggestRemedy } from './remedies.ts';

/** A mistake in an expression and its place, in UTF-16 code units from the start. */
export interface ExpressionProblem {
  readonly message: string;
  /** Absent: the docs are the only help. */
  readonly remedy?: string;
  readonly start: number;
  readonly end: number;
}

export interface ParsedExpression {
  readonly source: string;
  readonly ast: ASTNode;
  /** Returns the type of the value, `dyn` if only its values decide it; or the mistake. */
  readonly type: () => { readonly type: string } | ExpressionProblem;
  /** @throws what `problemOf` reads */
  readonly run: (values: Readonly<Record<string, unknown>>, doubles?: PrintedDoubles) => unknown;
}

/** CEL's own `matches` runs on an engine that some texts block for ever, so its calls use this function. */
const LINEAR_MATCHES = 'matchesLinear';
/** CEL's own `string` writes the shortest digits of a double, not those that the command printed. */
const AS_PRINTED = 'stringAsPrinted';

/** The doubles of the running expression. One variable is enough, because an expression runs synchronously. */
let doublesInUse: PrintedDoubles = new Map();

const functions = new Environment({
  unlistedVariablesAreDyn: false,
  enableOptionalTypes: true,
  limits: {
    maxAstNodes: EXPRESSION_LIMITS.nodes,
    maxDepth: EXPRESSION_LIMITS.depth,
    maxListElements: EXPRESSION_LIMITS.listElements,
    maxMapEntries: EXPRESSION_LIMITS.listElements,
    maxCallArguments: EXPRESSION_LIMITS.arguments,
  },
})
  .registerFunction(`string.${LINEAR_MATCHES}(string): bool`, matchLinear)
  .registerFunction(`${LINEAR_MATCHES}(string, string): bool`, matchLinear)
  .registerFunction(`${AS_PRINTED}(double): string`, (value: number) => writeDouble(value, doublesInUse))
  .registerFunction(`${AS_PRINTED}(string): string`, String)
  .registerFunction(`${AS_PRINTED}(bool): string`, String)
  .registerFunction(`${AS_PRINTED}(int): string`, String)
  .registerFunction(`${AS_PRINTED}(uint): string`, (value: { valueOf(): bigint }) => String(value.valueOf()))
  .registerType({ name: 'PrintedNumber', ctor: PrintedNumber, fields: {} });

const language = functions.clone().registerVariable('params', 'map').registerVariable('stages', 'map');
const itemLanguage = withItem(language.clone());

/** Adds the variables that a stage or part with items may read. */
function withItem(environment: Environment): Environment {
  return environment.registerVariable('item', 'dyn').registerVariable('item_index', 'int');
}

/** The variables of a trigger's expressions: the payload of a delivery, and the headers of its request. */
export const TRIGGER_VARIABLES = ['input', 'headers'] as const;

/** The language of a trigger's expressions. They decide before a run, so they read neither stages nor parameters. */
export const triggerLanguage = functions
  .clone()
  .registerVariable('input', 'dyn')
  .registerVariable('headers', 'map<string, string>');

/** @param ofItem  an expression may read `item` and `item_index` */
export function languageOf(ofItem: boolean): Environment {
  return ofItem ? itemLanguage : language;
}

/** Represents a stage in type checks only. */
class Stage {}

/**
 * @param params  the type of each: `string`, `int`, `dyn`
 * @param ofItem  as in `languageOf`
 */
export function createTypedLanguage(params: Readonly<Record<string, string>>, ofItem: boolean): Environment {
  const typed = functions
    .clone()
    .registerType({
      name: 'Stage',
      ctor: Stage,
      fields: { output: 'string', json: 'dyn', state: 'string', exit_code: 'int' },
    })
    .registerVariable('stages', 'map<string, Stage>')
    .registerVariable('params', { schema: params });
  return ofItem ? withItem(typed) : typed;
}

/** Returns the type of the expression's value, or the mistake. */
export function typeIn(source: string, typed: Environment): { readonly type: string } | ExpressionProblem {
  const parsed = parseExpression(source, typed);
  return isProblem(parsed) ? parsed : parsed.type();
}

function matchLinear(text: string, pattern: string): boolean {
  return RE2JS.compile(pattern).matcher(text).find();
}

export function parseExpression(source: string, inLanguage = language): ParsedExpression | ExpressionProblem {
  if (source.length > EXPRESSION_LIMITS.characters)
    return {
      message: `the expression has ${source.length} characters; at most ${EXPRESSION_LIMITS.characters} are allowed`,
      start: 0,
      end: source.length,
    };
  try {
    const parsed = inLanguage.parse(source);
    const { ast } = parsed;
    for (const node of nodesOf(ast)) adapt(node);
    const type = (): { readonly type: string } | ExpressionProblem => {
      const { valid, type: found = 'dyn', error } = parsed.check();
      return valid ? { type: found } : problemOf(error, source);
    };
    return {
      source,
      ast,
      type,
      run: (values, doubles = new Map()) => {
        doublesInUse = doubles;
        return parsed({ ...values }) as unknown;
      },
    };
  } catch (error) {
    return problemOf(error, source);
  }
}

export function isProblem(value: object): value is ExpressionProblem {
  return 'message' in value;
}

/** @throws the error if it is not a mistake in an expression */
export function problemOf(error: unknown, source: string): ExpressionProblem {
  const whole = { start: 0, end: source.length };
  if (error instanceof LostDigits) return { message: error.message, ...whole };
  if (error instanceof RE2JSException) return { message: `a regular expression is wrong: ${error.message}`, ...whole };
  if (!(error instanceof ParseError || error instanceof EvaluationError || error instanceof CelTypeError)) throw error;
  const { start, end } = error.range ?? whole;
  const remedy = suggestRemedy(error.code, error.summary, source);
  return { message: describeProblem(error.summary, error.code), ...(remedy !== null && { remedy }), start, end };
}

/** Adds to the library's message what an author needs. */
function describeProblem(fromLibrary: string, code: string): string {
  // Authors know CEL's names, not the names of these replacements.
  const summary = fromLibrary.replace(LINEAR_MATCHES, 'matches').replace(AS_PRINTED, 'string');
  const missing = code === 'no_matching_overload' ? /'(.*)'/.exec(summary) : null;
  if (missing !== null) return `there is no function \`${missing[1]!}\``;
  const text = summary.charAt(0).toLowerCase() + summary.slice(1);
  return code === 'no_such_key' ? `${text}; ask for it with \`has(…)\` first, or read it with \`.?\`` : text;
}

/** Yields the node and each node below it. */
export function* nodesOf(node: ASTNode): Generator<ASTNode> {
  yield node;
  for (const child of childrenOf(node.args)) yield* nodesOf(child);
}

function childrenOf(args: unknown): readonly ASTNode[] {
  if (Array.isArray(args)) return args.flatMap(childrenOf);
  return typeof args === 'object' && args !== null && 'op' in args ? [args as ASTNode] : [];
}

function adapt(node: ASTNode): void {
  if (node.op === 'map') (node as unknown as AdaptableNode).setMeta('evaluate', makeMap);
  if (node.op !== 'rcall' && node.op !== 'call') return;
  const args = node.args as [string, ...unknown[]];
  if (args[0] === 'matches') args[0] = LINEAR_MATCHES;
  if (node.op === 'call' && args[0] === 'string') args[0] = AS_PRINTED;
  if (node.op === 'call' && args[0] === 'has') selectByName(node.args[1][0]);
}

/** The members that the library's own declarations omit. */
interface AdaptableNode {
  setMeta(key: 'evaluate', evaluate: typeof makeMap): void;
}

/** Builds a mapping, because the library drops the keys `__proto__`, `constructor` and `prototype`. */
function makeMap(
  evaluator: { run(node: ASTNode, context: unknown): unknown },
  { args }: { readonly args: readonly (readonly [ASTNode, ASTNode])[] },
  context: unknown,
): ReadonlyMap<unknown, unknown> {
  return new Map(args.map(([key, value]) => [evaluator.run(key, context), evaluator.run(value, context)]));
}

/** Whether an expression only reads values, or makes lists and mappings of them: it computes or compares no number. */
export function isMadeOfSelections(node: ASTNode): boolean {
  const { op, args } = node;
  if (op === 'id' || op === 'value') return true;
  if (op === '.' || op === '.?') return isMadeOfSelections(args[0]);
  if (op === '[]' || op === '[?]') return isMadeOfSelections(args[0]) && args[1].op === 'value';
  if (op === 'list') return args.every(isMadeOfSelections);
  if (op === 'map') return args.every(([key, value]) => key.op === 'value' && isMadeOfSelections(value));
  return op === 'rcall' && args[0] === 'orValue' && isMadeOfSelections(args[1]) && args[2].every(isMadeOfSelections);
}

/**
 * Rewrites `has(stages["a-b"].json)` to `has(stages.a-b.json)`: the library accepts only the second form, which is not
 * valid as a source.
 */
function selectByName(start: ASTNode | undefined): void {
  for (let node = start; node !== undefined && isSelection(node); node = node.args[0]) {
    if (node.op !== '[]' && node.op !== '[?]') continue;
    const [of, key] = node.args;
    if (key.op !== 'value' || typeof key.args !== 'string') return;
    Object.assign(node, { op: node.op === '[]' ? '.' : '.?', args: [of, key.args] });
  }
}

function isSelection(node: ASTNode): node is Extract<ASTNode, { op: '.' | '.?' | '[]' | '[?]' }> {
  return node.op === '.' || node.op === '.?' || node.op === '[]' || node.op === '[?]';
}
