/** Shapes of VMs that wait before a stage needs them, as operators write them: `base:512x1=2`, `dev+claude:1024x2=1`. */

/** The most VMs that wait, of all shapes together. */
export const MOST_WARM = 16;

const WARM_LAYERS = ['claude', 'codex'] as const;

/** The sizes of a VM in a spec. */
export const WARM_RANGES = { memoryMib: { min: 128, max: 65_536 }, vcpus: { min: 1, max: 64 } } as const;

export interface WarmShape {
  readonly image: 'base' | 'dev';
  readonly layers: readonly (typeof WARM_LAYERS)[number][];
  readonly memoryMib: number;
  readonly vcpus: number;
}

export interface WarmCount {
  readonly shape: WarmShape;
  readonly count: number;
}

const FORM = /^([^+:=]+)((?:\+[^+:=]+)*):(\d{1,9})x(\d{1,9})=(\d{1,9})$/;

/** Returns the problem with the first wrong text; each shape may be given once. */
export function parseWarmShapes(texts: readonly string[]): readonly WarmCount[] | { readonly problem: string } {
  const found: WarmCount[] = [];
  for (const text of texts) {
    const parsed = parseOne(text);
    if (typeof parsed === 'string') return { problem: parsed };
    const name = formatWarmShape(parsed.shape);
    if (found.some(({ shape }) => formatWarmShape(shape) === name)) return { problem: `${name} is given twice` };
    found.push(parsed);
  }
  const total = found.reduce((sum, { count }) => sum + count, 0);
  if (total > MOST_WARM) return { problem: `${total} VMs would wait; at most ${MOST_WARM} may` };
  return found;
}

function parseOne(text: string): WarmCount | string {
  const match = FORM.exec(text);
  if (match === null) return 'it has not the form IMAGE[+LAYER]:MEMORYxVCPUS=COUNT';
  const [, image, more, memory, cpus, counted] = match;
  if (image !== 'base' && image !== 'dev') return 'the image is neither base nor dev';
  const names = more!.split('+').slice(1);
  const layers = WARM_LAYERS.filter((layer) => names.includes(layer));
  if (layers.length !== names.length) return `the layers are not ${WARM_LAYERS.join(' or ')}, each once`;
  const [memoryMib, vcpus, count] = [Number(memory), Number(cpus), Number(counted)];
  const range = [
    ['the memory', memoryMib, WARM_RANGES.memoryMib],
    ['the number of CPUs', vcpus, WARM_RANGES.vcpus],
    ['the number of VMs', count, { min: 1, max: MOST_WARM }],
  ] as const;
  const wrong = range.find(([, value, { min, max }]) => value < min || value > max);
  if (wrong !== undefined) return `${wrong[0]} is ${wrong[1]}, which is not ${wrong[2].min} to ${wrong[2].max}`;
  return { shape: { image, layers, memoryMib, vcpus }, count };
}

/** Returns the name of a shape: the part before the count. */
export function formatWarmShape({ image, layers, memoryMib, vcpus }: WarmShape): string {
  return `${[image, ...layers].join('+')}:${memoryMib}x${vcpus}`;
}
