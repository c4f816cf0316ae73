/** Reads skills and modules from the source: the calls that add steps, and the parts of each step. */
import { propertyOf, type Sources } from './sources.ts';
import { unwrap, below, type Call, is, keyName, memberName, type Node } from './syntax.ts';

/** The parts of a step, by key. */
export interface ConfigSource {
  readonly parts: ReadonlyMap<string, Node>;
  /** False where something is put in that is not written here. */
  readonly isWhole: boolean;
}

export interface StepSource {
  /** Null if the name is not a literal text. */
  readonly name: string | null;
  readonly nameNode: Node;
  readonly config: ConfigSource;
  /** The target that `__parent__` has where this step is used; null if it is unknown. */
  readonly parentTarget: string | null;
}

export interface NamedCall {
  readonly name: string | null;
  readonly nameNode: Node;
}

export interface BuilderSource {
  readonly kind: 'skill' | 'module' | 'reference';
  readonly name: string | null;
  /** The call that begins it. */
  readonly root: Node;
  readonly steps: readonly StepSource[];
  readonly subskills: readonly NamedCall[];
  readonly topics: readonly NamedCall[];
  readonly modules: readonly {
    readonly module: BuilderSource;
    /** The target of `__parent__` in its steps. */ readonly next: string | null;
  }[];
}

const ROOTS: Readonly<Record<string, BuilderSource['kind']>> = {
  skill: 'skill',
  SkillBuilder: 'skill',
  module: 'module',
  ModuleBuilder: 'module',
  reference: 'reference',
  ReferenceBuilder: 'reference',
};
const METHODS: ReadonlySet<string> = new Set(['step', 'extend', 'register', 'subskill', 'topic', 'build']);
const NOTHING: ConfigSource = { parts: new Map(), isWhole: false };

/** In the order of the source. */
export function buildersOf(sources: Sources): readonly BuilderSource[] {
  const calls = new Map<Node, { readonly method: string; readonly call: Call }[]>();
  const begins: Node[] = [];
  const roots = new Roots(sources);
  for (const node of sources.files.flatMap(({ program }) => [...below(program)])) {
    if (rootKind(sources, node) !== null) begins.push(node);
    if (!is(node, 'CallExpression')) continue;
    const method = methodOf(node);
    const root = method === null ? null : roots.of((unwrap(node.callee) as Node & { object: Node }).object);
    if (method === null || root === null) continue;
    const known = calls.get(root) ?? [];
    calls.set(root, known);
    known.push({ method, call: node });
  }
  const known = new Map<Node, BuilderSource>();
  const read = (root: Node): BuilderSource => {
    const before = known.get(root);
    if (before !== undefined) return before;
    const modules: BuilderSource['modules'][number][] = [];
    // Where a chain ends is in the order of its calls, where it begins is not.
    const own = (calls.get(root) ?? []).toSorted((a, b) => a.call.end - b.call.end);
    const findCalls = (method: string): NamedCall[] =>
      own.flatMap(({ method: m, call }) =>
        m === method && call.arguments[0]
          ? [{ name: sources.textOf(call.arguments[0]), nameNode: call.arguments[0] }]
          : [],
      );
    const [config] = (unwrap(root) as Call).arguments;
    const configValue = config === undefined ? null : sources.valueOf(config);
    const nameNode = configValue === null ? null : propertyOf(configValue, 'name');
    const builder: BuilderSource = {
      kind: rootKind(sources, root)!,
      name: nameNode === null ? null : sources.textOf(nameNode),
      root,
      steps: own.flatMap(({ method, call }) => stepOf(sources, method, call)),
      subskills: findCalls('subskill'),
      topics: findCalls('topic'),
      modules,
    };
    known.set(root, builder);
    for (const { method, call } of own) {
      const [made, options] = call.arguments;
      const registered = method === 'register' && made ? roots.of(made) : null;
      const given = options === undefined ? null : sources.valueOf(options);
      const next = given === null ? null : propertyOf(given, 'next');
      if (registered !== null)
        modules.push({ module: read(registered), next: next === null ? null : sources.textOf(next) });
    }
    return builder;
  };
  return begins.map(read);
}

/** Steps made with `step()`, which builders take over from anywhere. */
export function findSharedSteps(sources: Sources): readonly ConfigSource[] {
  const made = sources.files
    .flatMap(({ program }) => [...below(program)])
    .filter((node) => is(node, 'CallExpression') && sources.kitExport(node.callee) === 'step');
  return made.map((node) => configOf(sources, node));
}

/** Steps of a builder and of the modules that it registers; what is declared later wins, as it does when it is built. */
export function stepsByName(builder: BuilderSource): ReadonlyMap<string, StepSource> {
  const found = new Map<string, StepSource>();
  for (const { module, next } of builder.modules)
    for (const [name, step] of stepsByName(module)) found.set(name, { ...step, parentTarget: next });
  for (const step of builder.steps) if (step.name !== null) found.set(step.name, step);
  return found;
}

function rootKind(sources: Sources, node: Node): BuilderSource['kind'] | null {
  if (!is(node, 'CallExpression', 'NewExpression')) return null;
  const name = sources.kitExport(node.callee);
  return name === null || !Object.hasOwn(ROOTS, name) ? null : ROOTS[name]!;
}

function methodOf(call: Call): string | null {
  const callee = unwrap(call.callee);
  const name = is(callee, 'MemberExpression') ? memberName(callee) : null;
  return name !== null && METHODS.has(name) ? name : null;
}

/** The calls that begin chains. Every link of a chain asks for the same one, so that it is kept. */
class Roots {
  readonly #sources: Sources;
  readonly #known = new Map<Node, Node | null>();

  constructor(sources: Sources) {
    this.#sources = sources;
  }

  /** Null if the builder is unknown. */
  of(node: Node): Node | null {
    const links = new Set<Node>();
    let at = this.#sources.firstValueOf(node);
    let root: Node | null = null;
    while (at !== null && root === null && !links.has(at)) {
      links.add(at);
      root = rootKind(this.#sources, at) === null ? (this.#known.get(at) ?? null) : at;
      const callee: Node | null = is(at, 'CallExpression') && methodOf(at) !== null ? unwrap(at.callee) : null;
      at = is(callee, 'MemberExpression') ? this.#sources.firstValueOf(callee.object) : null;
    }
    for (const link of links) this.#known.set(link, root);
    return root;
  }
}

function stepOf(sources: Sources, method: string, call: Call): StepSource[] {
  const [name, first, overrides] = call.arguments;
  if (name === undefined || (method !== 'step' && method !== 'extend')) return [];
  const base = first === undefined ? NOTHING : configOf(sources, first);
  const config =
    method === 'extend' && overrides !== undefined ? mergeConfigs(base, configOf(sources, overrides)) : base;
  return [{ name: sources.textOf(name), nameNode: name, config, parentTarget: null }];
}

function configOf(sources: Sources, node: Node, hops = 0): ConfigSource {
  const value = sources.valueOf(node);
  if (value === null || hops > 50) return NOTHING;
  if (is(value, 'CallExpression')) {
    const [argument] = value.arguments;
    if (argument === undefined) return NOTHING;
    if (sources.kitExport(value.callee) === 'step') return configOf(sources, argument, hops + 1);
    const callee = unwrap(value.callee);
    if (!is(callee, 'MemberExpression') || memberName(callee) !== 'extend') return NOTHING;
    return mergeConfigs(configOf(sources, callee.object, hops + 1), configOf(sources, argument, hops + 1));
  }
  if (!is(value, 'ObjectExpression')) return NOTHING;
  let config: ConfigSource = { parts: new Map(), isWhole: true };
  for (const property of value.properties) {
    if (is(property, 'SpreadElement')) config = mergeConfigs(config, configOf(sources, property.argument, hops + 1));
    else {
      const key = keyName(property);
      config = mergeConfigs(config, {
        parts: new Map(key === null ? [] : [[key, property.value as Node]]),
        isWhole: key !== null,
      });
    }
  }
  return config;
}

/** What is not known on top may replace anything below, so that only what is known on top remains. */
function mergeConfigs(below: ConfigSource, above: ConfigSource): ConfigSource {
  return {
    parts: new Map([...(above.isWhole ? below.parts : []), ...above.parts]),
    isWhole: below.isWhole && above.isWhole,
  };
}
