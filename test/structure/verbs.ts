/** Which functions of a source have a name that does not begin with a verb. */
import { below, is, isFunction, keyName, type Node, parse, unwrap } from '../../skill-kit/lint/syntax.ts';

/** Verbs, and beginnings that TypeScript readers know: predicates, conversions, handlers and `main`. */
const VERBS = wordsOf(`
  is has are was can may must should would needs does exists to from with without on for main
  abort accept acknowledge acquire act adapt add admit adopt advance agree align allow announce append apply arm
  arrive assert assign attach authenticate await become begin bind boot build cancel capture carry check choose clamp classify
  clean clear clip close collect compare compile complete compose compute concat conclude configure confirm connect
  consume contain continue convert copy create decide declare decode dedent deduplicate define delete deliver deploy derive
  describe detach detect determine diagnose discard dispatch display dispose download drain draw drive drop edit embed
  emit enable encode encrypt decrypt debounce enforce ensure enter erase escape evaluate exchange execute expand expire explain extend extract fail
  feed fetch fill filter find finish fit fix flatten flush follow forget fork forward free freeze generate get give go
  grant guess handle hide hold identify ignore import include indent inherit initialize inject inline insert inspect
  install interleave interpret interrupt invoke join judge jump keep kill launch learn leave lend let lint list listen
  load locate lose lstat maintain make mask match measure memoize merge migrate modify mount move multiply negate
  normalize notify observe obtain offer omit open overwrite pad paint parse pass pause peek perform pick poll postpone
  prepare prevent print proceed produce protect prove prune publish pull push put quote raise rank reach read rebuild
  receive recover redact redirect reduce refer refresh refuse register reject release remember remove rename render
  renew reopen repair repeat replace replay require reset resolve respond restart restore restrict resume retain
  retrieve retry return reuse revoke rotate run sanitize save scan schedule seal search see seed select send separate
  serve set settle share shorten show shutdown sign skip sleep snapshot sort spawn spend split spread start stat
  statfs stop strip subtract succeed suggest summarise supervise survey swap sweep sync take terminate throw toggle
  touch track translate trash trim truncate try undo unescape unfence unlock unpack unref unwrap update upload use validate
  verify visit wait wake walk warm warn watch withdraw withhold wrap write yield
`);

/** Words that are nouns, too. Before one of `PARTS_OF_A_NOUN` they are: `planOf`, `recordPath`. */
const VERBS_AND_NOUNS = wordsOf(`
  answer ask attempt bound branch bundle call change checkpoint claim code count cut digest end exec exit fold format group guard hash
  hint host index label limit link lock log map mark mock name note order pack patch pipe place plan preset process project
  pump race record report request sample score size soak store stream sum tee test tick time transform view
`);
const PARTS_OF_A_NOUN = wordsOf(`
  of base body bytes context end facts failure field fields file folder hint holder id in kind key line lines machine marker mib ms
  name named names note number of options part path plan problem problems reason refusal reply request result schema table text
  word words
`);

function wordsOf(text: string): ReadonlySet<string> {
  return new Set(text.trim().split(/\s+/));
}

export function beginsWithVerb(name: string): boolean {
  const [first, second] = name.split(/(?<=[a-z0-9])(?=[A-Z])/).map((word) => word.toLowerCase());
  if (/^[a-z0-9]+Of$/.test(name)) return false;
  if (VERBS.has(first!)) return true;
  return VERBS_AND_NOUNS.has(first!) && (second === undefined || !PARTS_OF_A_NOUN.has(second));
}

/** Returns the names of functions that a source exports, in the order of the source. */
export function exportedFunctionsIn(path: string, source: string): readonly string[] {
  return [...below(parse(path, source))].flatMap((node) => {
    if (!is(node, 'ExportNamedDeclaration') || !node.declaration) return [];
    const { declaration } = node;
    const declared = is(declaration, 'VariableDeclaration') ? declaration.declarations : [declaration];
    return declared.flatMap((each) => nameOfFunction(each) ?? []);
  });
}

/** Returns the names of declared functions, of constants that are functions, and of methods, in the order of the source. */
export function functionsIn(path: string, source: string): readonly string[] {
  return [...below(parse(path, source))].flatMap((node) => nameOfFunction(node) ?? []);
}

function nameOfFunction(node: Node): string | null {
  if (is(node, 'FunctionDeclaration')) return node.id?.name ?? null;
  if (is(node, 'VariableDeclarator'))
    return is(node.id, 'Identifier') && node.init && isFunction(unwrap(node.init)) ? node.id.name : null;
  return isMethod(node) ? keyName(node) : null;
}

interface Method extends Node {
  readonly key: Node;
  readonly computed: boolean;
}

/** Getters are values, and a constructor has no name of its own. */
function isMethod(node: Node): node is Method {
  if (node.type === 'MethodDefinition') return (node as Node & { readonly kind: string }).kind === 'method';
  return node.type === 'Property' && (node as Node & { readonly method: boolean }).method;
}
