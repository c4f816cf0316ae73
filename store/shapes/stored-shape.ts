/**
 * Checks only the shape of a described value that is read back. Admission applied the rules of the value, and they may
 * differ in this build. Limits are rules, too.
 */
import type { Node } from '../../domain/plan/description.ts';
import {
  aCount,
  aFlag,
  anything,
  aNumber,
  aText,
  type Check,
  either,
  kindOf,
  listOf,
  objectOf,
  oneOf,
  optional,
  allowNull,
  valuesOf,
} from '../../domain/run/shape.ts';

export function storedShape(node: Node): Check {
  switch (node.is) {
    case 'text':
      return aText;
    case 'count':
      return aCount;
    case 'number':
      return aNumber;
    case 'flag':
      return aFlag;
    case 'exactly':
      return exactly(node.value);
    case 'word':
      return oneOf(...node.words);
    case 'json':
      return anything;
    case 'list':
      return listOf(storedShape(node.of));
    case 'map':
      return valuesOf(storedShape(node.of));
    case 'object':
      return objectOf(shapesOf(node.fields));
    case 'kinds':
      return kindOf('kind', shapesOf(node.kinds));
    case 'either':
      return either(storedShape(node.first), storedShape(node.second));
    case 'nullable':
      return allowNull(storedShape(node.of));
    case 'optional':
      return optional(storedShape(node.of));
  }
}

function shapesOf(nodes: Readonly<Record<string, Node>>): Readonly<Record<string, Check>> {
  return Object.fromEntries(Object.entries(nodes).map(([key, node]) => [key, storedShape(node)]));
}

function exactly(value: string | number | true): Check {
  if (typeof value === 'string') return oneOf(value);
  return (found, at) => (found === value ? null : `${at} is not ${value}`);
}
