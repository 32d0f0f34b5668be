import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.message.ConsumerGroupHeartbeatRequestData;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberKey;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberValue;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberState;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;
import org.apache.kafka.coordinator.group.modern.SubscriptionCount;
import org.apache.kafka.coordinator.group.modern.TargetAssignmentBuilder;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroup;
import org.apache.kafka.coordinator.group.modern.consumer.ConsumerGroupMember;
import org.apache.kafka.coordinator.group.modern.consumer.CurrentAssignmentBuilder;
import org.apache.kafka.coordinator.group.modern.consumer.ResolvedRegularExpression;
import org.apache.kafka.coordinator.group.modern.consumer.TopicRegexResolver;
import org.slf4j.LoggerFactory;

/**
 * Asks the pure parts of Apache Kafka's group coordinator.
 *
 * A line of standard input is a question in JSON, whose "kind" is the name of a method below; a line
 * of standard output is the result.  Topic ids are written as 32 hexadecimal digits.
 */
public class GroupOracle {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] none) throws Exception {
        PrintStream output = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode question = JSON.readTree(line);
            Method kind =
                GroupOracle.class.getDeclaredMethod(question.get("kind").asText(), JsonNode.class);
            output.println(JSON.writeValueAsString(kind.invoke(null, question)));
            output.flush();
        }
    }

    /** assignor, type, topics {id: partitions}, members [{id, instance, topics, assignment}], hashed */
    static Object assign(JsonNode question) {
        Map<Uuid, Integer> counts = new HashMap<>();
        question.get("topics").properties().forEach(
            entry -> counts.put(uuid(entry.getKey()), entry.getValue().asInt()));
        // Java's own order of the members, or that of the question.
        Map<String, MemberSubscriptionAndAssignmentImpl> members =
            question.get("hashed").asBoolean() ? new HashMap<>() : new LinkedHashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        for (JsonNode member : question.get("members")) {
            String id = member.get("id").asText();
            Set<Uuid> topics = new LinkedHashSet<>();
            member.get("topics").forEach(topic -> topics.add(uuid(topic.asText())));
            Map<Uuid, Set<Integer>> assignment = assignment(member.get("assignment"));
            own(owners, id, assignment);
            members.put(id, new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), Optional.ofNullable(text(member.get("instance"))), topics,
                new Assignment(assignment)));
        }
        SubscribedTopicDescriber describer = new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid topicId) {
                return counts.getOrDefault(topicId, -1);
            }

            @Override
            public Set<String> racksForPartition(Uuid topicId, int partition) {
                return Set.of();
            }
        };
        return assignments(assignor(question).assign(
            new GroupSpecImpl(Collections.unmodifiableMap(members),
                SubscriptionType.valueOf(question.get("type").asText()), owners),
            describer).members());
    }

    /**
     * assignor, topics [{id, name, count}], resolved {regex: [name]}, members [{id, instance, names,
     * regex}], updated (as members), removed [id], static {instance: id}, present {id: assignment}
     */
    static Object target(JsonNode question) {
        Image image = new Image(question.get("topics"));
        Map<String, ResolvedRegularExpression> resolved = resolved(question.get("resolved"));
        Map<String, Assignment> present = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        question.get("present").properties().forEach(entry -> {
            Map<Uuid, Set<Integer>> assignment = assignment(entry.getValue());
            own(owners, entry.getKey(), assignment);
            present.put(entry.getKey(), new Assignment(assignment));
        });
        Map<String, ConsumerGroupMember> members = new HashMap<>();
        question.get("members").forEach(one -> members.put(one.get("id").asText(), member(one)));
        Map<String, String> statics = new HashMap<>();
        question.get("static").properties().forEach(
            entry -> statics.put(entry.getKey(), entry.getValue().asText()));
        TargetAssignmentBuilder.ConsumerTargetAssignmentBuilder builder =
            new TargetAssignmentBuilder.ConsumerTargetAssignmentBuilder(
                "group", question.get("epoch").asInt(), assignor(question))
            .withTime(Time.SYSTEM)
            .withMembers(new HashMap<>(members))
            .withStaticMembers(statics)
            .withTargetAssignment(present)
            .withInvertedTargetAssignment(owners)
            .withMetadataImage(image)
            .withResolvedRegularExpressions(resolved);
        question.get("updated").forEach(one -> {
            members.put(one.get("id").asText(), member(one));
            builder.addOrUpdateMember(one.get("id").asText(), member(one));
        });
        question.get("removed").forEach(id -> {
            members.remove(id.asText());
            builder.removeMember(id.asText());
        });
        SubscriptionType type = subscriptionType(members, resolved);
        TargetAssignmentBuilder.TargetAssignmentResult result =
            builder.withSubscriptionType(type).build();
        Map<String, Object> changed = new TreeMap<>();
        for (CoordinatorRecord record : result.records()) {
            if (record.key() instanceof ConsumerGroupTargetAssignmentMemberKey key) {
                var value = (ConsumerGroupTargetAssignmentMemberValue) record.value().message();
                Map<String, Object> topics = new TreeMap<>();
                value.topicPartitions().forEach(topic ->
                    topics.put(hex(topic.topicId()), new TreeSet<>(topic.partitions())));
                changed.put(key.memberId(), topics);
            }
        }
        return Map.of("type", type.name(), "changed", changed,
            "assignments", assignments(result.targetAssignment()));
    }

    /**
     * member {epoch, previous, state, names, regex, assigned, pending}, topics, resolved,
     * target_epoch, target, epochs {id: {partition: epoch}}, reported [[id, [partition]]] or null,
     * changed
     */
    static Object reconcile(JsonNode question) {
        JsonNode asked = question.get("member");
        ConsumerGroupMember member = new ConsumerGroupMember.Builder(member(asked))
            .setMemberEpoch(asked.get("epoch").asInt())
            .setPreviousMemberEpoch(asked.get("previous").asInt())
            .setState(MemberState.fromValue((byte) asked.get("state").asInt()))
            .setAssignedPartitions(epochs(asked.get("assigned")))
            .setPartitionsPendingRevocation(epochs(asked.get("pending")))
            .build();
        Map<Uuid, Map<Integer, Integer>> owners = epochs(question.get("epochs"));
        List<ConsumerGroupHeartbeatRequestData.TopicPartitions> reported = null;
        if (!question.get("reported").isNull()) {
            reported = new ArrayList<>();
            for (JsonNode topic : question.get("reported")) {
                List<Integer> partitions = new ArrayList<>();
                topic.get(1).forEach(partition -> partitions.add(partition.asInt()));
                reported.add(new ConsumerGroupHeartbeatRequestData.TopicPartitions()
                    .setTopicId(uuid(topic.get(0).asText())).setPartitions(partitions));
            }
        }
        ConsumerGroupMember next;
        try {
            next = new CurrentAssignmentBuilder(member)
                .withMetadataImage(new Image(question.get("topics")))
                .withTargetAssignment(question.get("target_epoch").asInt(),
                    new Assignment(assignment(question.get("target"))))
                .withHasSubscriptionChanged(question.get("changed").asBoolean())
                .withResolvedRegularExpressions(resolved(question.get("resolved")))
                .withCurrentPartitionEpoch((topic, partition) ->
                    owners.getOrDefault(topic, Map.of()).getOrDefault(partition, -1))
                .withOwnedTopicPartitions(reported)
                .build();
        } catch (ApiException refused) {
            return refusal(refused);
        }
        return Map.of("epoch", next.memberEpoch(), "previous", next.previousMemberEpoch(),
            "state", next.state().value(), "same", next.equals(member),
            "assigned", epochs(next.assignedPartitions()),
            "pending", epochs(next.partitionsPendingRevocation()));
    }

    /** regex, topics: the error, or the names that match */
    static Object regex(JsonNode question) throws ReflectiveOperationException {
        String regex = question.get("regex").asText();
        Method check = Class.forName("org.apache.kafka.coordinator.group.Utils")
            .getDeclaredMethod("throwIfRegularExpressionIsInvalid", String.class);
        check.setAccessible(true);
        try {
            check.invoke(null, regex);
        } catch (InvocationTargetException refused) {
            return refusal((ApiException) refused.getCause());
        }
        Map<String, ResolvedRegularExpression> found =
            new TopicRegexResolver(Optional::empty, Time.SYSTEM).resolveRegularExpressions(
                null, "group", LoggerFactory.getLogger(GroupOracle.class),
                new Image(question.get("topics")), Set.of(regex));
        return Map.of("names", new TreeSet<>(found.get(regex).topics()));
    }

    private static Map<String, Object> refusal(ApiException refused) {
        return Map.of("code", Errors.forException(refused).code(), "message", refused.getMessage());
    }

    private static ConsumerGroupPartitionAssignor assignor(JsonNode question) {
        return question.get("assignor").asText().equals(RangeAssignor.NAME)
            ? new RangeAssignor() : new UniformAssignor();
    }

    private static SubscriptionType subscriptionType(
        Map<String, ConsumerGroupMember> members, Map<String, ResolvedRegularExpression> resolved
    ) {
        Map<String, Integer> regexes = new HashMap<>();
        Map<String, SubscriptionCount> names = new HashMap<>();
        for (ConsumerGroupMember member : members.values()) {
            if (member.subscribedTopicRegex() != null && !member.subscribedTopicRegex().isEmpty()) {
                regexes.merge(member.subscribedTopicRegex(), 1, Integer::sum);
            }
            member.subscribedTopicNames().forEach(
                name -> names.compute(name, SubscriptionCount::incNameCount));
        }
        for (String regex : regexes.keySet()) {
            if (resolved.containsKey(regex)) {
                resolved.get(regex).topics().forEach(
                    name -> names.compute(name, SubscriptionCount::incRegexCount));
            }
        }
        return ConsumerGroup.subscriptionType(regexes, names, members.size());
    }

    private static ConsumerGroupMember member(JsonNode one) {
        List<String> names = new ArrayList<>();
        one.get("names").forEach(name -> names.add(name.asText()));
        return new ConsumerGroupMember.Builder(one.get("id").asText())
            .setInstanceId(text(one.get("instance")))
            .setSubscribedTopicNames(names)
            .setSubscribedTopicRegex(text(one.get("regex")))
            .build();
    }

    private static Map<String, ResolvedRegularExpression> resolved(JsonNode node) {
        Map<String, ResolvedRegularExpression> resolved = new HashMap<>();
        node.properties().forEach(entry -> {
            Set<String> names = new LinkedHashSet<>();
            entry.getValue().forEach(name -> names.add(name.asText()));
            resolved.put(entry.getKey(), new ResolvedRegularExpression(names, 1L, 1L));
        });
        return resolved;
    }

    private static void own(
        Map<Uuid, Map<Integer, String>> owners, String member, Map<Uuid, Set<Integer>> assignment
    ) {
        assignment.forEach((topic, partitions) -> partitions.forEach(partition ->
            owners.computeIfAbsent(topic, none -> new HashMap<>()).put(partition, member)));
    }

    private static Map<Uuid, Set<Integer>> assignment(JsonNode node) {
        Map<Uuid, Set<Integer>> assignment = new LinkedHashMap<>();
        node.properties().forEach(entry -> {
            Set<Integer> partitions = new LinkedHashSet<>();
            entry.getValue().forEach(partition -> partitions.add(partition.asInt()));
            assignment.put(uuid(entry.getKey()), partitions);
        });
        return Collections.unmodifiableMap(assignment);
    }

    private static Map<Uuid, Map<Integer, Integer>> epochs(JsonNode node) {
        Map<Uuid, Map<Integer, Integer>> epochs = new HashMap<>();
        node.properties().forEach(topic -> {
            Map<Integer, Integer> partitions = new HashMap<>();
            topic.getValue().properties().forEach(entry ->
                partitions.put(Integer.valueOf(entry.getKey()), entry.getValue().asInt()));
            epochs.put(uuid(topic.getKey()), partitions);
        });
        // The one empty map: Kafka compares whether it still is the very same.
        return epochs.isEmpty() ? Map.of() : epochs;
    }

    private static Map<String, Object> epochs(Map<Uuid, Map<Integer, Integer>> epochs) {
        Map<String, Object> written = new TreeMap<>();
        epochs.forEach((topic, partitions) -> written.put(hex(topic), new TreeMap<>(partitions)));
        return written;
    }

    private static Map<String, Object> assignments(Map<String, MemberAssignment> members) {
        Map<String, Object> written = new TreeMap<>();
        members.forEach((id, assignment) -> {
            Map<String, Object> topics = new TreeMap<>();
            assignment.partitions().forEach(
                (topic, partitions) -> topics.put(hex(topic), new TreeSet<>(partitions)));
            written.put(id, topics);
        });
        return written;
    }

    private static String text(JsonNode node) {
        return node == null || node.isNull() ? null : node.asText();
    }

    private static Uuid uuid(String digits) {
        return new Uuid(Long.parseUnsignedLong(digits.substring(0, 16), 16),
            Long.parseUnsignedLong(digits.substring(16), 16));
    }

    private static String hex(Uuid id) {
        return String.format("%016x%016x", id.getMostSignificantBits(), id.getLeastSignificantBits());
    }

    private record Topic(Uuid id, String name, int partitionCount)
        implements CoordinatorMetadataImage.TopicMetadata {
        @Override
        public List<String> partitionRacks(int partition) {
            return List.of();
        }
    }

    /** The topics of a question. */
    private static final class Image implements CoordinatorMetadataImage {
        private final Map<Uuid, TopicMetadata> byId = new HashMap<>();
        private final Map<String, TopicMetadata> byName = new HashMap<>();

        Image(JsonNode topics) {
            for (JsonNode node : topics) {
                Topic topic = new Topic(uuid(node.get("id").asText()), node.get("name").asText(),
                    node.get("count").asInt());
                byId.put(topic.id(), topic);
                byName.put(topic.name(), topic);
            }
        }

        @Override
        public Set<Uuid> topicIds() {
            return byId.keySet();
        }

        @Override
        public Set<String> topicNames() {
            return byName.keySet();
        }

        @Override
        public Optional<TopicMetadata> topicMetadata(String name) {
            return Optional.ofNullable(byName.get(name));
        }

        @Override
        public Optional<TopicMetadata> topicMetadata(Uuid id) {
            return Optional.ofNullable(byId.get(id));
        }

        @Override
        public CoordinatorMetadataDelta emptyDelta() {
            throw new UnsupportedOperationException();
        }

        @Override
        public long version() {
            return 1;
        }

        @Override
        public boolean isEmpty() {
            return byId.isEmpty();
        }
    }
}
