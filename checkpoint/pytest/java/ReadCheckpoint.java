import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.FileInputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.arrow.compression.CommonsCompressionFactory;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.*;
import org.apache.arrow.vector.complex.*;
import org.apache.arrow.vector.ipc.ArrowFileReader;

/**
 * Opens checkpoints with Arrow Java and compares every value with expected.json, as test_open.py does.
 *
 * <p>Run by hand:
 *
 * <pre>
 * mvn -q dependency:build-classpath -Dmdep.outputFile=/tmp/classpath
 * java --add-opens=java.base/java.nio=ALL-UNNAMED -cp "$(cat /tmp/classpath)" ReadCheckpoint.java ../../testdata/v1 ../../testdata/v2
 * </pre>
 */
class ReadCheckpoint {
  static final JsonNodeFactory json = JsonNodeFactory.instance;

  public static void main(String[] dirs) throws Exception {
    for (String dir : dirs) {
      JsonNode expected = new ObjectMapper().readTree(Path.of(dir, "expected.json").toFile());
      Path root = Path.of(dir, expected.get("checkpoint").asText());
      JsonNode manifest = new ObjectMapper().readTree(root.resolve("manifest.json").toFile());
      for (JsonNode view : manifest.get("views")) {
        int rows = compare(root, view, expected.get("views").get(view.get("name").asText()));
        System.out.printf("ok: %s %s: %d groups%n", root, view.get("name").asText(), rows);
      }
    }
  }

  static int compare(Path root, JsonNode view, JsonNode want) throws Exception {
    List<String> keys = new ArrayList<>();
    for (JsonNode c : view.get("columns")) {
      if (c.get("role").asText().equals("key")) {
        keys.add(c.get("name").asText());
      }
    }
    // Of the rows with one key that of the last part counts; __deleted says that there is none.
    Map<String, ObjectNode> rows = new LinkedHashMap<>();
    boolean parts = view.has("parts");
    for (JsonNode file : parts ? view.get("parts") : json.arrayNode().add(view.get("file"))) {
      for (ObjectNode row : read(root.resolve(file.get("name").asText()))) {
        String key = String.valueOf(rows.size());
        if (parts) {
          ArrayNode k = json.arrayNode();
          keys.forEach(name -> k.add(row.get(name)));
          key = k.toString();
        }
        JsonNode gone = row.remove("__deleted");
        rows.remove(key);
        if (gone == null || !gone.asBoolean()) {
          rows.put(key, row);
        }
      }
    }
    List<String> got = new ArrayList<>(), all = new ArrayList<>();
    rows.values().forEach(row -> got.add(row.toString()));
    for (int i = 0; i < rows.size(); i++) {
      ObjectNode row = json.objectNode();
      for (JsonNode name : want.get("columns")) {
        row.set(name.asText(), want.get("values").get(name.asText()).get(i));
      }
      all.add(row.toString());
    }
    got.sort(null);
    all.sort(null);
    if (rows.size() != view.get("groups").asInt() || !got.equals(all)) {
      for (int i = 0; i < got.size(); i++) {
        if (!got.get(i).equals(all.get(i))) {
          throw new AssertionError(view.get("name") + ":\n" + got.get(i) + "\nwant\n" + all.get(i));
        }
      }
      throw new AssertionError(view.get("name") + ": " + rows.size() + " groups");
    }
    return rows.size();
  }

  static List<ObjectNode> read(Path file) throws Exception {
    List<ObjectNode> rows = new ArrayList<>();
    try (BufferAllocator allocator = new RootAllocator();
        FileInputStream in = new FileInputStream(file.toFile());
        ArrowFileReader reader = new ArrowFileReader(in.getChannel(), allocator, CommonsCompressionFactory.INSTANCE)) {
      while (reader.loadNextBatch()) {
        VectorSchemaRoot batch = reader.getVectorSchemaRoot();
        for (int i = 0; i < batch.getRowCount(); i++) {
          ObjectNode row = json.objectNode();
          for (FieldVector v : batch.getFieldVectors()) {
            row.set(v.getName(), canon(v, i));
          }
          rows.add(row);
        }
      }
    }
    return rows;
  }

  /** The spelling of a value in expected.json, see emit_test.go. */
  static JsonNode canon(ValueVector v, int i) {
    if (v instanceof ExtensionTypeVector<?> e) {
      return canon(e.getUnderlyingVector(), i);
    }
    if (v.isNull(i)) {
      return json.nullNode();
    }
    if (v instanceof ListVector l) { // and MapVector, whose elements are structs
      return list(l.getDataVector(), l.getElementStartIndex(i), l.getElementEndIndex(i));
    }
    if (v instanceof FixedSizeListVector l) {
      return list(l.getDataVector(), l.getElementStartIndex(i), l.getElementEndIndex(i));
    }
    if (v instanceof StructVector s) {
      ArrayNode out = json.arrayNode();
      s.getChildrenFromFields().forEach(child -> out.add(canon(child, i)));
      return out;
    }
    if (v instanceof BitVector b) {
      return json.booleanNode(b.get(i) != 0);
    }
    if (v instanceof VarCharVector c) {
      return json.textNode(new String(c.get(i), StandardCharsets.UTF_8));
    }
    return json.textNode(text(v, i));
  }

  static ArrayNode list(ValueVector v, int from, int to) {
    ArrayNode out = json.arrayNode();
    for (int i = from; i < to; i++) {
      out.add(canon(v, i));
    }
    return out;
  }

  static String text(ValueVector v, int i) {
    if (v instanceof VarBinaryVector b) {
      return HexFormat.of().formatHex(b.get(i));
    } else if (v instanceof FixedSizeBinaryVector b) {
      return HexFormat.of().formatHex(b.get(i));
    } else if (v instanceof DecimalVector d) {
      return d.getObject(i).unscaledValue().toString();
    } else if (v instanceof Float4Vector f) {
      return bits(f.get(i));
    } else if (v instanceof Float8Vector f) {
      return bits(f.get(i));
    } else if (v instanceof UInt1Vector u) {
      return String.valueOf(u.get(i) & 0xff);
    } else if (v instanceof UInt2Vector u) {
      return String.valueOf((int) u.get(i));
    } else if (v instanceof UInt4Vector u) {
      return Integer.toUnsignedString(u.get(i));
    } else if (v instanceof UInt8Vector u) {
      return Long.toUnsignedString(u.get(i));
    } else if (v instanceof TimeStampVector t) {
      return String.valueOf(t.get(i));
    } else if (v instanceof DateDayVector d) {
      return String.valueOf(d.get(i));
    } else if (v instanceof TimeMicroVector t) {
      return String.valueOf(t.get(i));
    } else if (v instanceof BaseIntVector n) {
      return String.valueOf(n.getValueAsLong(i));
    }
    throw new AssertionError("no spelling for " + v.getField());
  }

  static String bits(double d) {
    return Double.isNaN(d) ? "nan" : HexFormat.of().toHexDigits(Double.doubleToRawLongBits(d));
  }
}
